// Self-attention without padding for sequences of one length: forward and backward, AVX-512, heads of 32 channels.
#include <torch/extension.h>
#include <ATen/Parallel.h>
#include <immintrin.h>
#include <cmath>
using bf = at::BFloat16;
typedef __m512 V;
constexpr int D = 32;
static inline void widen(const uint16_t* s, float* d) {
  for (int h = 0; h < 2; h++) {
    __m512i w = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)(s + 16 * h))), 16);
    _mm512_storeu_ps(d + 16 * h, _mm512_castsi512_ps(w));
  }
}
static inline void narrow(V a, V b, uint16_t* d) {
  _mm256_storeu_si256((__m256i*)d, (__m256i)_mm512_cvtneps_pbh(a));
  _mm256_storeu_si256((__m256i*)(d + 16), (__m256i)_mm512_cvtneps_pbh(b));
}
static inline V exponential(V x) {
  x = _mm512_max_ps(x, _mm512_set1_ps(-87.f));
  V n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
  V r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145752f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860677e-6f), r);
  V p = _mm512_set1_ps(8.3333333e-3f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1666667e-2f)); p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.16666667f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f)); p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.f)); p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.f));
  return _mm512_scalef_ps(p, n);
}
// out[i][j] = sum over d of a[i][d] * bt[d][j]; rows of out have Lp floats. a has rows up to a multiple of 4.
static inline void outer(const float* a, const float* bt, float* out, int L, int Lp) {
  for (int i = 0; i < L; i += 4) for (int j = 0; j < Lp; j += 16) {
    V s0 = _mm512_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
    for (int d = 0; d < D; d++) {
      V b = _mm512_loadu_ps(bt + d * Lp + j);
      s0 = _mm512_fmadd_ps(_mm512_set1_ps(a[i * D + d]), b, s0); s1 = _mm512_fmadd_ps(_mm512_set1_ps(a[(i + 1) * D + d]), b, s1);
      s2 = _mm512_fmadd_ps(_mm512_set1_ps(a[(i + 2) * D + d]), b, s2); s3 = _mm512_fmadd_ps(_mm512_set1_ps(a[(i + 3) * D + d]), b, s3);
    }
    _mm512_storeu_ps(out + i * Lp + j, s0); _mm512_storeu_ps(out + (i + 1) * Lp + j, s1);
    _mm512_storeu_ps(out + (i + 2) * Lp + j, s2); _mm512_storeu_ps(out + (i + 3) * Lp + j, s3);
  }
}
// out[i] = sum over j of w[i*si + j*sj] * b[j], rows of 32 channels, written as bf16.
static inline void mix(const float* w, long si, long sj, const float* b, uint16_t* out, long stride, int L) {
  for (int i = 0; i < L; i += 4) {
    V x[8]; for (auto& y : x) y = _mm512_setzero_ps();
    for (int j = 0; j < L; j++) {
      V lo = _mm512_loadu_ps(b + j * D), hi = _mm512_loadu_ps(b + j * D + 16);
      for (int r = 0; r < 4; r++) { V f = _mm512_set1_ps(w[(i + r) * si + j * sj]); x[2 * r] = _mm512_fmadd_ps(f, lo, x[2 * r]); x[2 * r + 1] = _mm512_fmadd_ps(f, hi, x[2 * r + 1]); }
    }
    for (int r = 0; r < 4 && i + r < L; r++) narrow(x[2 * r], x[2 * r + 1], out + (i + r) * stride);
  }
}
static void rows(const uint16_t* s, long stride, int L, float* d) { for (int i = 0; i < L; i++) widen(s + i * stride, d + i * D); }
static void cols(const uint16_t* s, long stride, int L, int Lp, float* d) {
  float row[D];
  for (int i = 0; i < L; i++) { widen(s + i * stride, row); for (int c = 0; c < D; c++) d[c * Lp + i] = row[c]; }
}
std::vector<at::Tensor> forward(at::Tensor qkv, int64_t B, int64_t L, int64_t H) {
  int Lp = (L + 15) / 16 * 16, L4 = (L + 3) / 4 * 4; long W = H * D; V scale = _mm512_set1_ps(1 / std::sqrt((float)D));
  auto out = at::empty({B * L, W}, qkv.options()); auto probs = at::empty({B * H, L4, Lp}, qkv.options().dtype(at::kFloat));
  auto x = (const uint16_t*)qkv.data_ptr<bf>(); auto o = (uint16_t*)out.data_ptr<bf>(); float* pp = probs.data_ptr<float>();
  at::parallel_for(0, B * H, 16, [&](long a, long z) {
    std::vector<float> kt(D * Lp), v(L4 * D), q(L4 * D);
    for (long n = a; n < z; n++) {
      long b = n / H, h = n % H; auto base = x + b * L * 3 * W + h * D; float* P = pp + n * L4 * Lp;
      rows(base, 3 * W, L, q.data()); cols(base + W, 3 * W, L, Lp, kt.data()); rows(base + 2 * W, 3 * W, L, v.data());
      outer(q.data(), kt.data(), P, L, Lp);
      __mmask16 last = L % 16 ? (1 << (L % 16)) - 1 : 0xffff;
      for (int i = 0; i < L; i++) {
        float* p = P + i * Lp; V m = _mm512_set1_ps(-1e30f), t = _mm512_setzero_ps();
        for (int j = 0; j < Lp; j += 16) m = _mm512_mask_max_ps(m, j + 16 < Lp ? 0xffff : last, m, _mm512_loadu_ps(p + j));
        m = _mm512_set1_ps(_mm512_reduce_max_ps(m));
        for (int j = 0; j < Lp; j += 16) { V e = _mm512_maskz_mov_ps(j + 16 < Lp ? 0xffff : last, exponential(_mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(p + j), m), scale))); t = _mm512_add_ps(t, e); _mm512_storeu_ps(p + j, e); }
        t = _mm512_set1_ps(1 / _mm512_reduce_add_ps(t));
        for (int j = 0; j < Lp; j += 16) _mm512_storeu_ps(p + j, _mm512_mul_ps(_mm512_loadu_ps(p + j), t));
      }
      mix(P, Lp, 1, v.data(), o + b * L * W + h * D, W, L);
    }
  });
  return {out, probs};
}
at::Tensor backward(at::Tensor g, at::Tensor qkv, at::Tensor probs, int64_t B, int64_t L, int64_t H) {
  int Lp = (L + 15) / 16 * 16, L4 = (L + 3) / 4 * 4; long W = H * D; V scale = _mm512_set1_ps(1 / std::sqrt((float)D));
  auto dx = at::empty({B * L, 3 * W}, qkv.options());
  auto x = (const uint16_t*)qkv.data_ptr<bf>(), gg = (const uint16_t*)g.data_ptr<bf>(); auto o = (uint16_t*)dx.data_ptr<bf>(); const float* pp = probs.data_ptr<float>();
  at::parallel_for(0, B * H, 16, [&](long a, long z) {
    std::vector<float> k(L4 * D), vt(D * Lp), q(L4 * D), go(L4 * D), ds(L4 * Lp);
    for (long n = a; n < z; n++) {
      long b = n / H, h = n % H; auto base = x + b * L * 3 * W + h * D; const float* P = pp + n * L4 * Lp; auto ob = o + b * L * 3 * W + h * D;
      rows(base, 3 * W, L, q.data()); rows(base + W, 3 * W, L, k.data()); cols(base + 2 * W, 3 * W, L, Lp, vt.data()); rows(gg + b * L * W + h * D, W, L, go.data());
      outer(go.data(), vt.data(), ds.data(), L, Lp);
      for (int i = 0; i < L; i++) {
        float* s = ds.data() + i * Lp; const float* p = P + i * Lp; V t = _mm512_setzero_ps();
        for (int j = 0; j < Lp; j += 16) t = _mm512_fmadd_ps(_mm512_loadu_ps(s + j), _mm512_loadu_ps(p + j), t);
        t = _mm512_set1_ps(_mm512_reduce_add_ps(t));
        for (int j = 0; j < Lp; j += 16) _mm512_storeu_ps(s + j, _mm512_mul_ps(_mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(s + j), t), _mm512_loadu_ps(p + j)), scale));
      }
      mix(ds.data(), Lp, 1, k.data(), ob, 3 * W, L); mix(ds.data(), 1, Lp, q.data(), ob + W, 3 * W, L); mix(P, 1, Lp, go.data(), ob + 2 * W, 3 * W, L);
    }
  });
  return dx;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, py::call_guard<py::gil_scoped_release>()); m.def("backward", &backward, py::call_guard<py::gil_scoped_release>()); }
