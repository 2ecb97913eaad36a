// Idlemesh for C: progress, logs and metrics of the job, buffers and kernels of the device.
//
// It needs only this file and idlemesh_abi.h beside it, and works only in a module
// (--target=wasm32-wasi). A module is one thread: calls block it. What the device
// refuses returns 0 or a status that is not 0, and mesh_error says why.
#ifndef IDLEMESH_H
#define IDLEMESH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "idlemesh_abi.h"

// Levels of log lines.
enum { MESH_DEBUG, MESH_INFO, MESH_WARN, MESH_ERROR };

// mesh_progress tells the tenant how far the job is; total 0 means unknown.
static inline void mesh_progress(uint64_t done, uint64_t total, const char *text) {
  mesh_job_v1_progress(done, total, text, strlen(text));
}

// mesh_log writes a line to the job's log.
static inline void mesh_log(uint32_t level, const char *text) { mesh_job_v1_log(level, text, strlen(text)); }

// mesh_metric reports a figure of the job under a name. The last value of a name counts.
static inline void mesh_metric(const char *name, double value) { mesh_job_v1_metric(name, strlen(name), value); }

// A mesh_buffer is a handle of device memory; 0 is none.
typedef uint32_t mesh_buffer;

// A mesh_event stands for a list submitted earlier; 0 is none.
typedef uint64_t mesh_event;

// A mesh_operand is a place in a buffer; offset is in bytes. One that is not used is zero.
typedef struct {
  mesh_buffer buffer;
  uint8_t type, zero[3];
  uint64_t offset;
} mesh_operand;

// A mesh_command is one kernel call. What the kernel does not use is zero.
typedef struct {
  uint16_t op, flags;
  uint32_t stream; // 0
  mesh_operand dst, a, b, c;
  uint32_t m, n, k, l;
  uint32_t params[10]; // integers, or binary32 by mesh_bits
} mesh_command;

_Static_assert(sizeof(mesh_command) == MESH_COMMAND_SIZE, "a command has another size");

// mesh_alloc returns a zeroed buffer of size bytes, 0 when refused.
static inline mesh_buffer mesh_alloc(uint64_t size) { return mesh_gpu_v1_alloc(size); }

// mesh_free gives a buffer back. The device zeroes it.
static inline void mesh_free(mesh_buffer b) { mesh_gpu_v1_free(b); }

// mesh_write copies len bytes at p to the buffer at offset. 0 is success.
static inline int mesh_write(mesh_buffer b, uint64_t offset, const void *p, size_t len) {
  return mesh_gpu_v1_write(b, offset, p, len);
}

// mesh_read copies len bytes from the buffer at offset to p, after all work submitted
// before. 0 is success.
static inline int mesh_read(mesh_buffer b, uint64_t offset, void *p, size_t len) {
  return mesh_gpu_v1_read(b, offset, p, len);
}

// mesh_submit starts n commands, all or none, to be run in order; 0 when refused.
static inline mesh_event mesh_submit(const mesh_command *list, size_t n) { return mesh_gpu_v1_submit(list, n); }

// mesh_wait returns when ev is done. 0 is success.
static inline int mesh_wait(mesh_event ev) { return mesh_gpu_v1_wait(ev); }

// mesh_error puts why the device refused last into text of size bytes, and returns it.
static inline const char *mesh_error(char *text, size_t size) {
  text[mesh_gpu_v1_last_error(text, size - 1)] = 0;
  return text;
}

// mesh_info puts the device's description, JSON, into text of size bytes, and returns it.
static inline const char *mesh_info(char *text, size_t size) {
  text[mesh_gpu_v1_info(text, size - 1)] = 0;
  return text;
}

// mesh_must ends the module with status 1 and the device's reason unless ok.
static inline void mesh_must(int ok, const char *what) {
  char why[512];
  if (ok) return;
  fprintf(stderr, "%s: %s\n", what, mesh_error(why, sizeof why));
  exit(1);
}

// mesh_at is a buffer of floats from its start, mesh_ints one of 32-bit integers.
static inline mesh_operand mesh_at(mesh_buffer b) { return (mesh_operand){.buffer = b}; }
static inline mesh_operand mesh_ints(mesh_buffer b) { return (mesh_operand){.buffer = b, .type = MESH_TYPE_I32}; }

// mesh_skip moves an operand on by n elements of four bytes.
static inline mesh_operand mesh_skip(mesh_operand o, uint64_t n) {
  o.offset += 4 * n;
  return o;
}

// mesh_bits are a float's bits, as params want them.
static inline uint32_t mesh_bits(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

// Builders: a command for each kernel with what it always needs. What is optional is set
// on what they return, as in mesh_gemm's flags, c for a bias, params for leading
// dimensions, strides, alpha and beta. docs/abi.md has each kernel in full. For a kernel
// without a builder fill a mesh_command.

// dst[m,n] = op(a)[m,k] · op(b)[k,n]
static inline mesh_command mesh_gemm(mesh_operand dst, mesh_operand a, mesh_operand b, uint32_t m, uint32_t n, uint32_t k) {
  return (mesh_command){.op = MESH_GEMM, .dst = dst, .a = a, .b = b, .m = m, .n = n, .k = k};
}

// mesh_scale makes a gemm alpha · (a · b) + beta · dst. Alpha 0 counts as 1.
static inline mesh_command mesh_scale(mesh_command gemm, float alpha, float beta) {
  gemm.params[6] = mesh_bits(alpha), gemm.params[7] = mesh_bits(beta);
  return gemm;
}

// dst[m,n] = a / sqrt(mean square of its row + eps)
static inline mesh_command mesh_rmsnorm(mesh_operand dst, mesh_operand a, uint32_t m, uint32_t n, float eps) {
  return (mesh_command){.op = MESH_RMSNORM, .dst = dst, .a = a, .m = m, .n = n, .params = {mesh_bits(eps)}};
}

// dst[m,n] = softmax of each row of a
static inline mesh_command mesh_softmax(mesh_operand dst, mesh_operand a, uint32_t m, uint32_t n) {
  return (mesh_command){.op = MESH_SOFTMAX, .dst = dst, .a = a, .m = m, .n = n};
}

// dst[m,n] = a + b
static inline mesh_command mesh_add(mesh_operand dst, mesh_operand a, mesh_operand b, uint32_t m, uint32_t n) {
  return (mesh_command){.op = MESH_ADD, .dst = dst, .a = a, .b = b, .m = m, .n = n};
}

// dst[m,n] = a · b, element by element
static inline mesh_command mesh_mul(mesh_operand dst, mesh_operand a, mesh_operand b, uint32_t m, uint32_t n) {
  return (mesh_command){.op = MESH_MUL, .dst = dst, .a = a, .b = b, .m = m, .n = n};
}

// dst[m,n] = a · sigmoid(a) · b, element by element
static inline mesh_command mesh_swiglu(mesh_operand dst, mesh_operand a, mesh_operand b, uint32_t m, uint32_t n) {
  return (mesh_command){.op = MESH_SWIGLU, .dst = dst, .a = a, .b = b, .m = m, .n = n};
}

// dst[m,n] = the rows of table[k,n] that the integers rows[m] name
static inline mesh_command mesh_get_rows(mesh_operand dst, mesh_operand table, mesh_operand rows, uint32_t m, uint32_t n, uint32_t k) {
  return (mesh_command){.op = MESH_GET_ROWS, .dst = dst, .a = table, .b = rows, .m = m, .n = n, .k = k};
}

// dst[tokens,heads,dim] = a turned by position and freqs[dim/2]
static inline mesh_command mesh_rope(mesh_operand dst, mesh_operand a, mesh_operand freqs, uint32_t tokens, uint32_t heads, uint32_t dim, uint32_t position) {
  return (mesh_command){.op = MESH_ROPE, .dst = dst, .a = a, .b = freqs, .m = tokens, .n = heads, .k = dim, .params = {position}};
}

// rows[m,n] of keys and values go to their caches[size,n] from row at
static inline mesh_command mesh_kv_append(mesh_operand keys, mesh_operand values, mesh_operand key, mesh_operand value, uint32_t m, uint32_t n, uint32_t size, uint32_t at) {
  return (mesh_command){.op = MESH_KV_APPEND, .dst = keys, .a = key, .b = value, .c = values, .m = m, .n = n, .k = size, .params = {at}};
}

// dst[tokens,heads,dim] = attention of a to rows of the caches of kv heads
static inline mesh_command mesh_attention(mesh_operand dst, mesh_operand a, mesh_operand keys, mesh_operand values, uint32_t tokens, uint32_t heads, uint32_t dim, uint32_t kv, uint32_t position, uint32_t rows) {
  return (mesh_command){.op = MESH_ATTENTION, .dst = dst, .a = a, .b = keys, .c = values, .m = tokens, .n = heads, .k = dim, .l = kv, .params = {position, rows}};
}

// dst[m], integers = the column of the largest of each row of a[m,n]
static inline mesh_command mesh_argmax(mesh_operand dst, mesh_operand a, uint32_t m, uint32_t n) {
  return (mesh_command){.op = MESH_ARGMAX, .dst = dst, .a = a, .m = m, .n = n};
}

// dst[m,k] and which[m,k], integers = the k largest of each row of a[m,n]
static inline mesh_command mesh_topk(mesh_operand dst, mesh_operand which, mesh_operand a, uint32_t m, uint32_t n, uint32_t k) {
  return (mesh_command){.op = MESH_TOPK, .dst = dst, .a = a, .c = which, .m = m, .n = n, .k = k};
}

// dst[m], integers = a column drawn from each row of a[m,n]; top_k 0 and top_p 0 are off
static inline mesh_command mesh_sample(mesh_operand dst, mesh_operand a, uint32_t m, uint32_t n, float temperature, uint32_t top_k, float top_p, uint64_t seed, uint64_t counter) {
  return (mesh_command){.op = MESH_SAMPLE, .dst = dst, .a = a, .m = m, .n = n, .k = top_k,
                        .params = {seed, seed >> 32, counter, counter >> 32, mesh_bits(temperature), mesh_bits(top_p)}};
}

// dst[m,n] = bits, of a float (mesh_bits) or an integer
static inline mesh_command mesh_fill(mesh_operand dst, uint32_t m, uint32_t n, uint32_t bits) {
  return (mesh_command){.op = MESH_FILL, .dst = dst, .m = m, .n = n, .params = {bits}};
}

// dst[m,n] = a; rows are lda and ldd elements apart, 0 is n
static inline mesh_command mesh_copy(mesh_operand dst, mesh_operand a, uint32_t m, uint32_t n, uint32_t lda, uint32_t ldd) {
  return (mesh_command){.op = MESH_COPY, .dst = dst, .a = a, .m = m, .n = n, .params = {lda, ldd}};
}

#endif
