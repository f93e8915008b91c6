/* Set before an .inc of typed kernel bodies: the float half of a pair. */
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
#define REAL float
#define T(name) name##_f32
#define EXP(x) kernel_expf(x)
#define TANH(x) kernel_tanhf(x)
#define ERF(x) kernel_erff(x)
#define SIGMOID(x) kernel_sigmoidf(x)
#define LOG(x) logf(x)
#define SQRT(x) sqrtf(x)
#define POW(x, y) powf(x, y)
#define LIBM(name) name##f
