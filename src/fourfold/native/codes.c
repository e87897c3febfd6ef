/* Vectors in one byte per dimension, to rule out most rows before exact cosines are computed.

   A vector v is stored as a scale s and whole numbers c from -127 to 127, with the length of the difference v - s c. So
   the product with a query is known up to a bound, and a row whose upper bound lies below the lower bounds of enough
   others cannot be among the best. Sums of whole numbers are exact: all machines choose the same rows. */

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "cpu.h"
#include "rankings.h"

#ifdef HAS_AVX2_VARIANTS
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { CODE_MAX = 127, QUERY_MAX = 8191, MAX_DIMENSION = 2048, MAX_LIMIT = 1 << 20, STRIDE = 16 };

/* Added to bounds for the rounding of floats; far below the differences that the codes leave. */
static const double ROUNDING = 1e-5;

/* Encodes `count` vectors: their codes, scales, and the lengths of what the codes leave out. DAMAGED: not finite. */
API int ff_encode(const float *vectors, int64_t count, int64_t dimension, int8_t *codes, float *scales, float *errors)
{
    for (int64_t row = 0; row < count; row++) {
        const float *vector = vectors + row * dimension;
        int8_t *code = codes + row * dimension;
        float largest = 0.0f;
        double rest = 0.0;
        for (int64_t i = 0; i < dimension; i++) {
            const float size = fabsf(vector[i]);
            if (!(size <= FLT_MAX)) return DAMAGED;
            if (size > largest) largest = size;
        }
        const float scale = largest / CODE_MAX, steps = scale > 0 ? 1 / scale : 0;
        if (!(steps <= FLT_MAX)) return DAMAGED;
        for (int64_t i = 0; i < dimension; i++) {
            const float number = vector[i] * steps;
            const int32_t whole = (int32_t)(number + (number < 0 ? -0.5f : 0.5f));
            code[i] = (int8_t)(whole > CODE_MAX ? CODE_MAX : whole < -CODE_MAX ? -CODE_MAX : whole);
            const double left = (double)vector[i] - (double)scale * code[i];
            rest += left * left;
        }
        scales[row] = scale;
        errors[row] = (float)(sqrt(rest) * (1 + 1e-6));
    }
    return DONE;
}

/* Computes the products of rows (NULL: of the first ones) with a query. At most 2048 x 127 x 8191: 32 bits are enough. */
static void multiply(
    const int8_t *codes, int64_t dimension, const int64_t *rows, int64_t count, const int16_t *query, int32_t *products)
{
    for (int64_t r = 0; r < count; r++) {
        const int8_t *code = codes + (rows ? rows[r] : r) * dimension;
        int32_t sum = 0;
        for (int64_t i = 0; i < dimension; i++) sum += (int32_t)code[i] * (int32_t)query[i];
        products[r] = sum;
    }
}

#ifdef HAS_AVX2_VARIANTS
/* The same with registers of 256 bits: 16 products at a time, in two sums. */
WITH_AVX2 static void multiply_avx2(
    const int8_t *codes, int64_t dimension, const int64_t *rows, int64_t count, const int16_t *query, int32_t *products)
{
    for (int64_t r = 0; r < count; r++) {
        const int8_t *code = codes + (rows ? rows[r] : r) * dimension;
        __m256i even = _mm256_setzero_si256(), odd = _mm256_setzero_si256();
        int64_t i = 0;
        for (; i + 32 <= dimension; i += 32) {
            const __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(code + i)));
            const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(code + i + 16)));
            even = _mm256_add_epi32(even, _mm256_madd_epi16(a, _mm256_loadu_si256((const __m256i *)(query + i))));
            odd = _mm256_add_epi32(odd, _mm256_madd_epi16(b, _mm256_loadu_si256((const __m256i *)(query + i + 16))));
        }
        const __m256i both = _mm256_add_epi32(even, odd);
        __m128i four = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
        four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
        int32_t sum = _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
        for (; i < dimension; i++) sum += (int32_t)code[i] * (int32_t)query[i];
        products[r] = sum;
    }
}

/* The same with registers of 512 bits: 32 products and their sums in one instruction. */
WITH_VNNI static void multiply_vnni(
    const int8_t *codes, int64_t dimension, const int64_t *rows, int64_t count, const int16_t *query, int32_t *products)
{
    for (int64_t r = 0; r < count; r++) {
        const int8_t *code = codes + (rows ? rows[r] : r) * dimension;
        __m512i even = _mm512_setzero_si512(), odd = _mm512_setzero_si512();
        int64_t i = 0;
        for (; i + 64 <= dimension; i += 64) {
            const __m512i a = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(code + i)));
            const __m512i b = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(code + i + 32)));
            even = _mm512_dpwssd_epi32(even, a, _mm512_loadu_si512(query + i));
            odd = _mm512_dpwssd_epi32(odd, b, _mm512_loadu_si512(query + i + 32));
        }
        int32_t sum = _mm512_reduce_add_epi32(_mm512_add_epi32(even, odd));
        for (; i < dimension; i++) sum += (int32_t)code[i] * (int32_t)query[i];
        products[r] = sum;
    }
}

int ff_has_avx2, ff_has_vnni;

/* Asks processor and operating system, once: a virtual machine takes 20 microseconds to answer. */
__attribute__((constructor)) static void find_variants(void)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    ff_has_avx2 = (b & bit_AVX2) != 0;
    ff_has_vnni = (low & 0xE6) == 0xE6 && (b & bit_AVX512F) && (b & bit_AVX512BW) && (c & bit_AVX512VNNI);
}
#endif

/* Replaces the least number of a heap of the largest ones. */
static void replace_least(float *heap, int64_t size, float number)
{
    int64_t at = 0;
    for (int64_t child = 1; child < size; child = 2 * at + 1) {
        if (child + 1 < size && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= number) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = number;
}

/* Computes bounds of the products of rows (NULL: of the first ones) with a query: those of their codes, times `step`, and
   at most `each` times what the codes leave out plus `all` more or less. */
static void find_bounds(
    const Codes *c, const int64_t *rows, int64_t count, const int32_t *products, float step, float each, float all,
    float *lower, float *upper)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = rows ? rows[i] : i;
        const float middle = c->scales[row] * step * (float)products[i], width = c->errors[row] * each + all;
        lower[i] = middle - width;
        upper[i] = middle + width;
    }
}

/* Fills a heap with the `size` highest of every `stride`-th number, as far as they are above `least`, and with that.
   Returns its lowest number. */
static float fill_heap(const float *numbers, int64_t count, int64_t stride, float least, float *heap, int64_t size)
{
    for (int64_t i = 0; i < size; i++) heap[i] = least;
    for (int64_t i = 0; i < count; i += stride)
        if (numbers[i] > heap[0]) replace_least(heap, size, numbers[i]);
    return heap[0];
}

/* Returns the `size`-th highest number; -INFINITY if there are fewer. A sample suggests where to begin, so that few
   numbers pass through the heap; if it suggests too much, all do. */
static float floor_of(const float *numbers, int64_t count, float *heap, int64_t size)
{
    const int64_t sampled = size / STRIDE + size / (4 * STRIDE) + 4;
    if (count > 4 * size && sampled < size) {
        const float guess = fill_heap(numbers, count, STRIDE, -INFINITY, heap, sampled);
        const float found = fill_heap(numbers, count, 1, guess, heap, size);
        if (found > guess) return found;
    }
    return fill_heap(numbers, count, 1, -INFINITY, heap, size);
}

/* Writes those of the rows that can be among the `limit` with the highest products with the query; returns their number.

   `rows`: NULL for the first ones. `chosen` has room for `count`. */
int64_t ff_likely_rows(
    const Codes *c, const Rows *part, const int64_t *rows, int64_t count, const float *query, int64_t limit, int64_t *chosen)
{
    const int64_t dimension = part->size, row_count = part->row_count;
    if (dimension < 1 || dimension > MAX_DIMENSION || limit < 1 || limit > MAX_LIMIT) return DAMAGED;
    double most = 0.0, square = 0.0, rest = 0.0;
    for (int64_t i = 0; i < dimension; i++) {
        if (!isfinite(query[i])) return DAMAGED;
        if (fabs((double)query[i]) > most) most = fabs((double)query[i]);
        square += (double)query[i] * (double)query[i];
    }
    int16_t whole[MAX_DIMENSION];
    const double step = most > 0 ? most / QUERY_MAX : 1.0;
    for (int64_t i = 0; i < dimension; i++) {
        const double number = rint((double)query[i] / step), left = (double)query[i] - step * number;
        whole[i] = (int16_t)number;
        rest += left * left;
    }
    if (count > row_count && !rows) return DAMAGED;
    for (int64_t i = 0; i < count && rows; i++)
        if (rows[i] < 0 || rows[i] >= row_count) return DAMAGED;
    int32_t *products = malloc((size_t)count * sizeof *products + 1);
    float *upper = malloc((2 * (size_t)count + (size_t)limit) * sizeof *upper), *lower = upper + count;
    if (!products || !upper) {
        free(products);
        free(upper);
        return NO_MEMORY;
    }
#ifdef HAS_AVX2_VARIANTS
    if (ff_has_vnni) multiply_vnni(c->codes, dimension, rows, count, whole, products);
    else if (ff_has_avx2) multiply_avx2(c->codes, dimension, rows, count, whole, products);
    else
#endif
        multiply(c->codes, dimension, rows, count, whole, products);
    const double length = sqrt(square), loss = sqrt(rest), each = length + loss, all = loss * c->longest + ROUNDING;
    find_bounds(c, rows, count, products, (float)step, (float)each, (float)all, lower, upper);
    const float least = floor_of(lower, count, lower + count, limit);
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        if (upper[i] >= least) chosen[found++] = rows ? rows[i] : i;
    free(products);
    free(upper);
    return found;
}
