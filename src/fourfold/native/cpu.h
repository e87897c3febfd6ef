/* Variants of inner loops for processors with AVX2, or with AVX-512 and VNNI: the same arithmetic in wider registers,
   with the same results. */

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_AVX2_VARIANTS 1
#define WITH_AVX2 __attribute__((target("avx2")))
#define WITH_VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))
#define IN_EVERY_VARIANT static inline __attribute__((always_inline))

extern int ff_has_avx2, ff_has_vnni; /* codes.c */
#else
#define IN_EVERY_VARIANT static inline
#endif
