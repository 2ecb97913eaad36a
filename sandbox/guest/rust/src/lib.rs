//! Idlemesh for Rust: progress, logs and metrics of the job, buffers and kernels of
//! the device.
//!
//! It works only in a module (target wasm32-wasip1, which older compilers call
//! wasm32-wasi). A module is one thread: calls block it.

mod abi;
mod command;

pub use abi::{BY_ROW, CAUSAL, COMMAND_SIZE, GELU, HALVES, MAX_COMMANDS, RELU, SILU, TRANS_A, TRANS_B};
pub use abi::{TYPE_F32, TYPE_I32};
pub use command::{Command, Operand};

/// The numbers of the kernels, for those that [`Command`] has no builder for.
pub mod ops {
    pub use crate::abi::*;
}

use abi::{mesh_gpu_v1 as gpu, mesh_job_v1 as job};

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// Tells the tenant how far the job is; a total of zero means unknown.
pub fn progress(done: u64, total: u64, text: &str) {
    unsafe { job::progress(done, total, text.as_ptr(), text.len() as u32) }
}

/// Writes a line to the job's log.
pub fn log(level: Level, text: &str) {
    unsafe { job::log(level as u32, text.as_ptr(), text.len() as u32) }
}

/// Reports a figure of the job under a name. The last value of a name counts.
pub fn metric(name: &str, value: f64) {
    unsafe { job::metric(name.as_ptr(), name.len() as u32, value) }
}

/// Why the device refused a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "device refused: {}", self.0)
    }
}

impl std::error::Error for Refused {}

fn refused() -> Refused {
    Refused(text(|p, cap| unsafe { gpu::last_error(p, cap) }))
}

/// Describes the device as JSON, with model, backend, vram and simulated.
pub fn info() -> String {
    text(|p, cap| unsafe { gpu::info(p, cap) })
}

fn text(fill: impl Fn(*const u8, u32) -> u32) -> String {
    let mut b = vec![0u8; 1024];
    let n = fill(b.as_mut_ptr(), b.len() as u32) as usize;
    b.truncate(n);
    String::from_utf8_lossy(&b).into_owned()
}

/// Values that lie in device memory as they lie here.
pub trait Element: Copy + Default + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for i32 {}
    impl Sealed for u32 {}
    impl Sealed for u8 {}
}

impl Element for f32 {}
impl Element for i32 {}
impl Element for u32 {}
impl Element for u8 {}

/// Device memory. It is given back, and zeroed, when the value is dropped.
#[derive(Debug)]
pub struct Buffer {
    handle: u32,
}

impl Buffer {
    /// A zeroed buffer of `size` bytes.
    pub fn alloc(size: u64) -> Result<Buffer, Refused> {
        match unsafe { gpu::alloc(size) } {
            0 => Err(refused()),
            handle => Ok(Buffer { handle }),
        }
    }

    /// A buffer that holds `values`.
    pub fn of<T: Element>(values: &[T]) -> Result<Buffer, Refused> {
        let b = Buffer::alloc(std::mem::size_of_val(values) as u64)?;
        b.write(0, values)?;
        Ok(b)
    }

    /// Copies `values` to the buffer, `offset` bytes from its start.
    pub fn write<T: Element>(&self, offset: u64, values: &[T]) -> Result<(), Refused> {
        let n = std::mem::size_of_val(values) as u32;
        status(unsafe { gpu::write(self.handle, offset, values.as_ptr().cast(), n) })
    }

    /// Reads `len` values, `offset` bytes from the start, after all work submitted before.
    pub fn read<T: Element>(&self, offset: u64, len: usize) -> Result<Vec<T>, Refused> {
        let mut values = vec![T::default(); len];
        let n = (len * std::mem::size_of::<T>()) as u32;
        status(unsafe { gpu::read(self.handle, offset, values.as_mut_ptr().cast::<u8>(), n) })?;
        Ok(values)
    }

    /// The buffer as floats from its start.
    pub fn at(&self) -> Operand {
        Operand::new(self.handle, TYPE_F32)
    }

    /// The buffer as 32-bit integers from its start.
    pub fn ints(&self) -> Operand {
        Operand::new(self.handle, TYPE_I32)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        unsafe { gpu::free(self.handle) }
    }
}

fn status(code: u32) -> Result<(), Refused> {
    match code {
        0 => Ok(()),
        _ => Err(refused()),
    }
}

/// A list of commands submitted earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event(u64);

impl Event {
    /// Returns when the list's work is done.
    pub fn wait(self) -> Result<(), Refused> {
        status(unsafe { gpu::wait(self.0) })
    }
}

/// Starts `list`, all or none, to be run in order.
pub fn submit(list: &[Command]) -> Result<Event, Refused> {
    match unsafe { gpu::submit(list.as_ptr().cast(), list.len() as u32) } {
        0 => Err(refused()),
        event => Ok(Event(event)),
    }
}
