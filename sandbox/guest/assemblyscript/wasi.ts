// The part of WASI preview 1 that a job needs and AssemblyScript's library has not: files,
// printing, arguments and the exit status.

@external("wasi_snapshot_preview1", "fd_write")
declare function fd_write(fd: u32, vectors: usize, n: u32, written: usize): u32;
@external("wasi_snapshot_preview1", "fd_read")
declare function fd_read(fd: u32, vectors: usize, n: u32, read: usize): u32;
@external("wasi_snapshot_preview1", "fd_close")
declare function fd_close(fd: u32): u32;
@external("wasi_snapshot_preview1", "path_open")
declare function path_open(dir: u32, lookup: u32, path: usize, len: u32, create: u32, rights: u64, inherited: u64, flags: u32, fd: usize): u32;
@external("wasi_snapshot_preview1", "args_sizes_get")
declare function args_sizes_get(count: usize, size: usize): u32;
@external("wasi_snapshot_preview1", "args_get")
declare function args_get(pointers: usize, texts: usize): u32;
@external("wasi_snapshot_preview1", "proc_exit")
declare function proc_exit(status: u32): void;

const ROOT: u32 = 3; // the one folder that is open from the start, /
const READ: u64 = 2, WRITE: u64 = 64;
const CREATE_ANEW: u32 = 9; // creat | trunc

/** A string's bytes. */
export function utf8(s: string): Uint8Array { return Uint8Array.wrap(String.UTF8.encode(s)); }

/** Prints a line to stdout. */
export function print(line: string): void { put(1, utf8(line + "\n")); }

/** Ends the module with status 1 and a line on stderr. */
export function fail(line: string): void {
  put(2, utf8(line + "\n"));
  proc_exit(1);
}

/** What abort is to be: asc --use abort=sandbox/guest/assemblyscript/wasi/aborted. */
export function aborted(message: string, file: string, line: u32, column: u32): void {
  fail((message ? message : "abort") + " (" + (file ? file : "?") + ":" + line.toString() + ":" + column.toString() + ")");
}

/** The module's arguments, without its own name. */
export function args(): string[] {
  const sizes = new Uint32Array(2);
  args_sizes_get(sizes.dataStart, sizes.dataStart + 4);
  const pointers = new Uint32Array(sizes[0] as i32), texts = new Uint8Array(sizes[1] as i32);
  args_get(pointers.dataStart, texts.dataStart);
  const list = new Array<string>();
  for (let i = 1; i < pointers.length; i++) {
    const at = pointers[i] as usize;
    let n: usize = 0;
    while (load<u8>(at + n) != 0) n++;
    list.push(String.UTF8.decodeUnsafe(at, n));
  }
  return list;
}

/** All of a file, such as /in/data; null where there is none. */
export function readFile(path: string): Uint8Array | null {
  const fd = open(path, 0, READ);
  if (fd < 0) return null;
  let b = new Uint8Array(1 << 16), n = 0;
  const vector = new Uint32Array(3);
  while (true) {
    if (n == b.length) {
      const larger = new Uint8Array(2 * b.length);
      larger.set(b);
      b = larger;
    }
    vector[0] = (b.dataStart + n) as u32;
    vector[1] = b.length - n;
    if (fd_read(fd, vector.dataStart, 1, vector.dataStart + 8) != 0) fail(path + ": cannot be read");
    if (vector[2] == 0) break;
    n += vector[2];
  }
  fd_close(fd);
  return b.subarray(0, n);
}

/** Writes a file, such as /out/result. */
export function writeFile(path: string, b: Uint8Array): void {
  const fd = open(path, CREATE_ANEW, WRITE);
  if (fd < 0) fail(path + ": cannot be written");
  put(fd, b);
  fd_close(fd);
}

function open(path: string, create: u32, rights: u64): i32 {
  const name = utf8(path.startsWith("/") ? path.substring(1) : path);
  const fd = new Uint32Array(1);
  if (path_open(ROOT, 1, name.dataStart, name.length, create, rights, 0, 0, fd.dataStart) != 0) return -1;
  return fd[0];
}

function put(fd: u32, b: Uint8Array): void {
  const vector = new Uint32Array(3);
  for (let at = 0; at < b.length; at += vector[2]) {
    vector[0] = (b.dataStart + at) as u32;
    vector[1] = b.length - at;
    if (fd_write(fd, vector.dataStart, 1, vector.dataStart + 8) != 0) proc_exit(1);
  }
}
