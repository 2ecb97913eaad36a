//! Correlate reads /in/table, a CSV file of numbers with a line of names on top, and
//! writes /out/correlation.csv: Pearson's coefficient of each two columns. The product
//! of the table with itself is the device's work.

use idlemesh::{metric, progress, submit, Buffer, Command, TRANS_A};
use std::error::Error;
use std::fmt::Write;
use std::fs;

fn main() {
    if let Err(e) = run() {
        eprintln!("correlate: {}", e);
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string("/in/table").map_err(|e| format!("/in/table: {}: give a CSV file: --input table=FILE", e))?;
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or("").split(',').collect();
    let mut cells = Vec::new();
    for (i, line) in lines.enumerate().filter(|(_, l)| !l.is_empty()) {
        let row: Result<Vec<f32>, _> = line.split(',').map(|c| c.trim().parse()).collect();
        match row {
            Ok(r) if r.len() == names.len() => cells.extend(r),
            _ => return Err(format!("/in/table:{}: want {} numbers", i + 2, names.len()).into()),
        }
    }
    let rows = cells.len() / names.len();
    if rows < 2 {
        return Err("/in/table: fewer than two rows".into());
    }
    progress(0, 1, "multiplying");
    (0..names.len()).for_each(|c| standardize(&mut cells, names.len(), c));
    fs::write("/out/correlation.csv", table(&names, &correlate(&cells, names.len())?)?)?;
    metric("rows", rows as f64);
    progress(1, 1, "done");
    println!("{} rows, {} columns", rows, names.len());
    Ok(())
}

/// Each column becomes one of mean 0 and sum of squares 1, or 0 where it never changes.
fn standardize(cells: &mut [f32], columns: usize, column: usize) {
    let mut values = cells.iter_mut().skip(column).step_by(columns).collect::<Vec<_>>();
    let mean = values.iter().map(|v| **v as f64).sum::<f64>() / values.len() as f64;
    let norm = values.iter().map(|v| (**v as f64 - mean).powi(2)).sum::<f64>().sqrt();
    for v in &mut values {
        **v = if norm > 0.0 { ((**v as f64 - mean) / norm) as f32 } else { 0.0 };
    }
}

fn correlate(cells: &[f32], columns: usize) -> Result<Vec<f32>, idlemesh::Refused> {
    let table = Buffer::of(cells)?;
    let out = Buffer::alloc((4 * columns * columns) as u64)?;
    let (n, rows) = (columns as u32, (cells.len() / columns) as u32);
    submit(&[Command::gemm(out.at(), table.at(), table.at(), n, n, rows).with(TRANS_A)])?.wait()?;
    out.read(0, columns * columns)
}

fn table(names: &[&str], values: &[f32]) -> Result<String, std::fmt::Error> {
    let mut s = String::new();
    for name in names {
        write!(s, ",{}", name)?;
    }
    for (name, row) in names.iter().zip(values.chunks(names.len())) {
        write!(s, "\n{}", name)?;
        for v in row {
            write!(s, ",{:.4}", v)?;
        }
    }
    s.push('\n');
    Ok(s)
}
