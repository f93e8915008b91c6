/* Set before an .inc of typed kernel bodies: the double half of a pair. */
#undef REAL
#undef T
#undef EXP
#undef TANH
#undef ERF
#undef SIGMOID
#undef LOG
#undef SQRT
#undef POW
#undef LIBM
#define REAL double
#define T(name) name##_f64
#define EXP(x) exp(x)
#define TANH(x) tanh(x)
#define ERF(x) erf(x)
#define SIGMOID(x) (1.0 / (1.0 + exp(-(x))))
#define LOG(x) log(x)
#define SQRT(x) sqrt(x)
#define POW(x, y) pow(x, y)
#define LIBM(name) name
