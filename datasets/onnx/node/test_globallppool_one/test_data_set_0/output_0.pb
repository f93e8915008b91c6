By0J¦)"Bð‚-B
BGÏ(BMš,BiEEB