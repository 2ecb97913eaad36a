// Correlate reads /in/table, a CSV file of numbers with a line of names on top, and
// writes /out/correlation.csv: Pearson's coefficient of each two columns. The product
// of the table with itself is the device's work.
#include <math.h>

#include "idlemesh.h"

enum { MAX_COLUMNS = 256 };

static char names[MAX_COLUMNS][64];
static float *cells;
static size_t rows, columns, room;

static void fail(const char *why, size_t line) {
  fprintf(stderr, "correlate: /in/table:%zu: %s\n", line, why);
  exit(1);
}

static void read_names(char *line) {
  for (char *name = strtok(line, ",\r\n"); name; name = strtok(NULL, ",\r\n")) {
    if (columns == MAX_COLUMNS) fail("more than 256 columns", 1);
    snprintf(names[columns++], sizeof names[0], "%s", name);
  }
  if (columns == 0) fail("no names of columns", 1);
}

static void read_row(char *line) {
  if ((rows + 1) * columns > room) {
    room = (rows + 1) * columns * 2;
    if (!(cells = realloc(cells, room * sizeof *cells))) fail("too large for the module's memory", rows + 2);
  }
  char *at = line;
  for (size_t i = 0; i < columns; i++) {
    char *end;
    cells[rows * columns + i] = strtof(at, &end);
    if (end == at) fail("a number is missing", rows + 2);
    at = *end == ',' ? end + 1 : end;
  }
  rows++;
}

// Each column becomes one of mean 0 and sum of squares 1, or 0 where it never changes.
static void standardize(size_t column) {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < rows; i++) sum += cells[i * columns + column];
  for (size_t i = 0; i < rows; i++) {
    double v = cells[i * columns + column] - sum / rows;
    squares += v * v;
  }
  for (size_t i = 0; i < rows; i++) {
    float *cell = &cells[i * columns + column];
    *cell = squares > 0 ? (*cell - sum / rows) / sqrt(squares) : 0;
  }
}

static float *correlate(void) {
  size_t bytes = rows * columns * sizeof *cells, out_bytes = columns * columns * sizeof *cells;
  mesh_buffer table = mesh_alloc(bytes), out = mesh_alloc(out_bytes);
  mesh_must(table && out, "correlate: alloc");
  mesh_must(!mesh_write(table, 0, cells, bytes), "correlate: write");
  mesh_command product = mesh_gemm(mesh_at(out), mesh_at(table), mesh_at(table), columns, columns, rows);
  product.flags = MESH_TRANS_A;
  mesh_event ev = mesh_submit(&product, 1);
  mesh_must(ev && !mesh_wait(ev), "correlate: gemm");
  float *result = malloc(out_bytes);
  mesh_must(!mesh_read(out, 0, result, out_bytes), "correlate: read");
  return result;
}

int main(void) {
  static char line[1 << 16];
  FILE *in = fopen("/in/table", "r");
  if (!in || !fgets(line, sizeof line, in)) fail("give a CSV file: --input table=FILE", 1);
  read_names(line);
  while (fgets(line, sizeof line, in))
    if (line[0] != '\n' && line[0] != '\r') read_row(line);
  if (rows < 2) fail("fewer than two rows", rows + 2);
  mesh_progress(0, 1, "multiplying");
  for (size_t i = 0; i < columns; i++) standardize(i);
  float *r = correlate();
  FILE *out = fopen("/out/correlation.csv", "w");
  if (!out) fail("cannot write /out/correlation.csv", 0);
  for (size_t i = 0; i < columns; i++) fprintf(out, ",%s", names[i]);
  for (size_t i = 0; i < columns; i++) {
    fprintf(out, "\n%s", names[i]);
    for (size_t j = 0; j < columns; j++) fprintf(out, ",%.4f", r[i * columns + j]);
  }
  fprintf(out, "\n");
  if (fclose(out)) fail("cannot write /out/correlation.csv", 0);
  mesh_metric("rows", rows);
  mesh_progress(1, 1, "done");
  printf("%zu rows, %zu columns\n", rows, columns);
  return 0;
}
