// Idlemesh for AssemblyScript: progress, logs and metrics of the job, buffers and kernels
// of the device. wasi.ts beside it has files, printing and arguments.
//
// A module is one thread: calls block it. What the device refuses ends the module with
// status 1 and the device's reason; docs/abi.md has every call that may be refused.

import * as abi from "./abi";
import { fail, utf8 } from "./wasi";

export * from "./abi";

/** Tells the tenant how far the job is; a total of zero means unknown. */
export function progress(done: u64, total: u64, text: string): void {
  const b = utf8(text);
  abi.mesh_job_v1_progress(done, total, b.dataStart, b.length);
}

/** Levels of log lines. */
export enum Level { Debug, Info, Warn, Error }

/** Writes a line to the job's log. */
export function log(level: Level, text: string): void {
  const b = utf8(text);
  abi.mesh_job_v1_log(level, b.dataStart, b.length);
}

/** Reports a figure of the job under a name. The last value of a name counts. */
export function metric(name: string, value: f64): void {
  const b = utf8(name);
  abi.mesh_job_v1_metric(b.dataStart, b.length, value);
}

/** Why the device refused last. */
export function refusal(): string {
  const b = new Uint8Array(1024);
  return String.UTF8.decodeUnsafe(b.dataStart, abi.mesh_gpu_v1_last_error(b.dataStart, b.length));
}

/** The device as JSON, with model, backend, vram and simulated. */
export function info(): string {
  const b = new Uint8Array(1024);
  return String.UTF8.decodeUnsafe(b.dataStart, abi.mesh_gpu_v1_info(b.dataStart, b.length));
}

function must(ok: bool, what: string): void {
  if (!ok) fail(what + ": " + refusal());
}

/** Device memory. It is given back by free, and at the end of the module. */
export class Buffer {
  /** Allocates size bytes, all zero. */
  constructor(public readonly size: u64, public readonly handle: u32 = 0) {
    if (handle == 0) this.handle = abi.mesh_gpu_v1_alloc(size);
    must(this.handle != 0, "alloc");
  }

  /** A buffer that holds values. */
  static of(values: Float32Array): Buffer {
    const b = new Buffer(values.byteLength);
    b.write(0, values);
    return b;
  }

  /** Copies values to the buffer, offset bytes from its start. */
  write(offset: u64, values: Float32Array): void {
    must(abi.mesh_gpu_v1_write(this.handle, offset, values.dataStart, values.byteLength) == 0, "write");
  }

  /** Reads len floats, offset bytes from the start, after all work submitted before. */
  read(offset: u64, len: i32): Float32Array {
    const values = new Float32Array(len);
    must(abi.mesh_gpu_v1_read(this.handle, offset, values.dataStart, values.byteLength) == 0, "read");
    return values;
  }

  /** Gives the buffer back. The device zeroes it. */
  free(): void { abi.mesh_gpu_v1_free(this.handle); }
}

/** An operand's place in a command. */
export enum Slot { Dst, A, B, C }

/** One kernel call, zero where the kernel uses nothing. */
export class Command {
  readonly bytes: Uint8Array = new Uint8Array(abi.COMMAND_SIZE);

  constructor(op: u16, flags: u16 = 0) {
    store<u16>(this.bytes.dataStart, op);
    store<u16>(this.bytes.dataStart, flags, 2);
  }

  /** Says where an operand lies, offset bytes from the start of a buffer. */
  operand(at: Slot, b: Buffer, type: u8 = abi.TYPE_F32, offset: u64 = 0): Command {
    const p = this.bytes.dataStart + 8 + 16 * (at as usize);
    store<u32>(p, b.handle);
    store<u8>(p, type, 4);
    store<u64>(p, offset, 8);
    return this;
  }

  /** Sets the shape M, N, K, L. */
  shape(m: u32, n: u32, k: u32 = 0, l: u32 = 0): Command {
    const p = this.bytes.dataStart;
    store<u32>(p, m, 72);
    store<u32>(p, n, 76);
    store<u32>(p, k, 80);
    store<u32>(p, l, 84);
    return this;
  }

  /** Sets parameter i of 10 to an integer. */
  param(i: i32, value: u32): Command {
    store<u32>(this.bytes.dataStart + 4 * i, value, 88);
    return this;
  }

  /** Sets parameter i of 10 to a float. */
  real(i: i32, value: f32): Command { return this.param(i, reinterpret<u32>(value)); }
}

/** Runs commands in order, all or none, and returns when they are done. */
export function run(list: Command[]): void {
  const b = new Uint8Array(list.length * (abi.COMMAND_SIZE as i32));
  for (let i = 0; i < list.length; i++) b.set(list[i].bytes, i * (abi.COMMAND_SIZE as i32));
  const event = abi.mesh_gpu_v1_submit(b.dataStart, list.length);
  must(event != 0 && abi.mesh_gpu_v1_wait(event) == 0, "submit");
}
