#!/usr/bin/env bash
# Ours beside OpenBLAS, and beside a plain read of memory, in one run on this machine:
#   apt-get install gcc libopenblas-dev
#   gpu/compare.sh [ROUNDS]
# Each figure is the best of ROUNDS (3), which take turns, so that a machine that does
# other things too slows both alike.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat > "$dir/theirs.c" <<'C'
#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void openblas_set_num_threads(int);

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static float *numbers(long n) {
  float *v = aligned_alloc(64, 4 * n);
  for (long i = 0; i < n; i++) v[i] = rand() / (float)RAND_MAX;
  return v;
}

static volatile float sink;
static float *memory;
static long words;

static void *read_part(void *half) {
  float s[64] = {0}, sum = 0;
  long from = (long)half * words / 2;
  for (long i = from; i < from + words / 2; i += 64)
    for (int j = 0; j < 64; j++) s[j] += memory[i + j];
  for (int j = 0; j < 64; j++) sum += s[j];
  sink = sum;
  return 0;
}

static void read_all(int threads) {
  pthread_t t;
  if (threads == 2) pthread_create(&t, 0, read_part, (void *)1);
  read_part((void *)0);
  if (threads == 2) pthread_join(t, 0); else read_part((void *)1);
}

int main(int argc, char **argv) {
  int threads = atoi(argv[2]), n = argc > 3 ? atoi(argv[3]) : 4096;
  openblas_set_num_threads(threads);
  float *a = numbers((long)n * n), *b = numbers((long)n * n), *c = numbers((long)n * n);
  memory = a, words = (long)n * n;
  double best = 1e9, start = now();
  for (int i = 0; i < 3 || now() - start < 0.7; i++) {
    double t = now();
    if (!strcmp(argv[1], "sgemm"))
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c, n);
    else if (!strcmp(argv[1], "sgemv"))
      cblas_sgemv(CblasRowMajor, CblasNoTrans, n, n, 1, a, n, b, 1, 0, c, 1);
    else
      read_all(threads);
    t = now() - t;
    if (t < best) best = t;
  }
  printf("%.2f\n", (strcmp(argv[1], "sgemm") ? 4e-9 * n * n : 2e-9 * n * n * n) / best);
}
C
gcc -O3 -march=native -ffast-math -o "$dir/theirs" "$dir/theirs.c" -lopenblas -lpthread
go test -c -o "$dir/ours" ./gpu/cpu

best() { sort -g | tail -1; }

# ours BENCHMARK UNIT prints its best figure of one round.
ours() {
  "$dir/ours" -test.run '^$' -test.bench "^Benchmark$1\$" -test.benchtime 100ms -test.count 5 |
    awk -v unit="$2" '{ for (i = 2; i < NF; i++) if ($(i + 1) == unit) print $i }' | best
}

# row NAME BENCHMARK UNIT THEIRS… compares; the ratio is to the first of theirs.
row() {
  local name=$1 bench=$2 unit=$3 k
  shift 3
  for ((k = 0; k < rounds; k++)); do
    ours "$bench" "$unit" >> "$dir/us"
    for t; do "$dir/theirs" $t >> "$dir/they-${t%% *}"; done
  done
  printf '%-32s %8s' "$name" "$(best < "$dir/us")"
  for t; do printf ' %8s' "$(best < "$dir/they-${t%% *}")"; done
  printf '   %.2f %s\n' "$(echo "$(best < "$dir/us") $(best < "$dir/they-${1%% *}")" | awk '{ print $1 / $2 }')" "$unit"
  rm "$dir"/us "$dir"/they-*
}

printf '%-32s %8s %8s\n' '' ours OpenBLAS
for n in 256 1024 2048; do
  for threads in 1 2; do
    row "sgemm n=$n threads=$threads" "Sgemm/n=$n/threads=$threads" GFLOP/s "sgemm $threads $n"
  done
done
printf '%-32s %8s %8s %8s\n' '' ours memory OpenBLAS
for threads in 1 2; do
  for kind in columns rows; do
    row "gemv 4096 $kind threads=$threads" "Gemv/$kind/threads=$threads" GB/s "read $threads" "sgemv $threads"
  done
done
