// Correlate reads /in/table, a CSV file of numbers with a line of names on top, and
// writes /out/correlation.csv: Pearson's coefficient of each two columns. The product
// of the table with itself is the device's work.

import { Buffer, Command, GEMM, Slot, TRANS_A, metric, progress, run } from "../../../sandbox/guest/assemblyscript/index";
import { fail, print, readFile, utf8, writeFile } from "../../../sandbox/guest/assemblyscript/wasi";

// Each column becomes one of mean 0 and sum of squares 1, or 0 where it never changes.
function standardize(cells: Float32Array, columns: i32, column: i32): void {
  const rows = cells.length / columns;
  let sum: f64 = 0, squares: f64 = 0;
  for (let i = column; i < cells.length; i += columns) sum += cells[i];
  const mean = sum / rows;
  for (let i = column; i < cells.length; i += columns) squares += (cells[i] - mean) * (cells[i] - mean);
  const norm = Math.sqrt(squares);
  for (let i = column; i < cells.length; i += columns) cells[i] = norm > 0 ? ((cells[i] - mean) / norm) as f32 : 0;
}

function correlate(cells: Float32Array, columns: i32): Float32Array {
  const table = Buffer.of(cells), out = new Buffer(4 * columns * columns);
  const product = new Command(GEMM, TRANS_A).shape(columns, columns, cells.length / columns)
    .operand(Slot.Dst, out).operand(Slot.A, table).operand(Slot.B, table);
  run([product]);
  return out.read(0, columns * columns);
}

// AssemblyScript has no toFixed.
function fixed(v: f32): string {
  const n = Math.round(Math.abs(v) * 10000) as i32;
  return (v < 0 && n > 0 ? "-" : "") + (n / 10000).toString() + "." + (n % 10000).toString().padStart(4, "0");
}

function main(): void {
  const file = readFile("/in/table");
  if (!file) { fail("correlate: give a CSV file: --input table=FILE"); return; }
  const lines = String.UTF8.decodeUnsafe(file.dataStart, file.length).split("\n");
  const names = lines[0].trim().split(","), columns = names.length;
  const values = new Array<f32>();
  for (let i = 1; i < lines.length; i++) {
    if (lines[i].trim() == "") continue;
    const row = lines[i].split(",");
    if (row.length != columns) fail("correlate: /in/table:" + (i + 1).toString() + ": want " + columns.toString() + " numbers");
    for (let c = 0; c < columns; c++) {
      const v = parseFloat(row[c]);
      if (isNaN(v)) fail("correlate: /in/table:" + (i + 1).toString() + ": " + row[c] + " is no number");
      values.push(v as f32);
    }
  }
  if (values.length < 2 * columns) fail("correlate: /in/table: fewer than two rows");
  progress(0, 1, "multiplying");
  const cells = new Float32Array(values.length);
  cells.set(values);
  for (let c = 0; c < columns; c++) standardize(cells, columns, c);
  const r = correlate(cells, columns);
  let csv = "";
  for (let c = 0; c < columns; c++) csv += "," + names[c];
  for (let i = 0; i < columns; i++) {
    csv += "\n" + names[i];
    for (let j = 0; j < columns; j++) csv += "," + fixed(r[i * columns + j]);
  }
  writeFile("/out/correlation.csv", utf8(csv + "\n"));
  metric("rows", values.length / columns);
  progress(1, 1, "done");
  print((values.length / columns).toString() + " rows, " + columns.toString() + " columns");
}

main();
