By0J!r<&
)H)x;rG/wh.Nb