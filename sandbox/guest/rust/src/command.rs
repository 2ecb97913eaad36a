use crate::abi;

/// A place in a buffer. The default is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operand {
    buffer: u32,
    kind: u8,
    zero: [u8; 3],
    offset: u64,
}

impl Operand {
    pub(crate) fn new(buffer: u32, kind: u8) -> Operand {
        Operand { buffer, kind, ..Operand::default() }
    }

    /// The place `n` elements of four bytes further.
    pub fn skip(mut self, n: u64) -> Operand {
        self.offset += 4 * n;
        self
    }
}

/// One kernel call. Builders fill what a kernel always needs; the rest, such as flags,
/// a bias in `c` or leading dimensions in `params`, is set on what they return.
/// docs/abi.md has each kernel in full; for one without a builder fill the fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    pub op: u16,
    pub flags: u16,
    pub stream: u32,
    pub dst: Operand,
    pub a: Operand,
    pub b: Operand,
    pub c: Operand,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub l: u32,
    /// Integers, or binary32 by `f32::to_bits`.
    pub params: [u32; 10],
}

const _: [u8; abi::COMMAND_SIZE] = [0; std::mem::size_of::<Command>()];

fn params(first: &[u32]) -> [u32; 10] {
    let mut p = [0; 10];
    p[..first.len()].copy_from_slice(first);
    p
}

impl Command {
    /// The same with `flags` added.
    pub fn with(mut self, flags: u16) -> Command {
        self.flags |= flags;
        self
    }

    /// A gemm with a row that is added to every row of its result.
    pub fn bias(mut self, c: Operand) -> Command {
        self.c = c;
        self
    }

    /// A gemm that computes alpha · (a · b) + beta · dst. An alpha of 0 counts as 1.
    pub fn scale(mut self, alpha: f32, beta: f32) -> Command {
        self.params[6] = alpha.to_bits();
        self.params[7] = beta.to_bits();
        self
    }

    /// dst[m,n] = op(a)[m,k] · op(b)[k,n]
    pub fn gemm(dst: Operand, a: Operand, b: Operand, m: u32, n: u32, k: u32) -> Command {
        Command { op: abi::GEMM, dst, a, b, m, n, k, ..Command::default() }
    }

    /// dst[m,n] = a / sqrt(mean square of its row + eps)
    pub fn rmsnorm(dst: Operand, a: Operand, m: u32, n: u32, eps: f32) -> Command {
        Command { op: abi::RMSNORM, dst, a, m, n, params: params(&[eps.to_bits()]), ..Command::default() }
    }

    /// dst[m,n] = softmax of each row of a
    pub fn softmax(dst: Operand, a: Operand, m: u32, n: u32) -> Command {
        Command { op: abi::SOFTMAX, dst, a, m, n, ..Command::default() }
    }

    /// dst[m,n] = a + b
    pub fn add(dst: Operand, a: Operand, b: Operand, m: u32, n: u32) -> Command {
        Command { op: abi::ADD, dst, a, b, m, n, ..Command::default() }
    }

    /// dst[m,n] = a · b, element by element
    pub fn mul(dst: Operand, a: Operand, b: Operand, m: u32, n: u32) -> Command {
        Command { op: abi::MUL, dst, a, b, m, n, ..Command::default() }
    }

    /// dst[m,n] = a · sigmoid(a) · b, element by element
    pub fn swiglu(dst: Operand, a: Operand, b: Operand, m: u32, n: u32) -> Command {
        Command { op: abi::SWIGLU, dst, a, b, m, n, ..Command::default() }
    }

    /// dst[m,n] = the rows of table[k,n] that the integers rows[m] name
    pub fn get_rows(dst: Operand, table: Operand, rows: Operand, m: u32, n: u32, k: u32) -> Command {
        Command { op: abi::GET_ROWS, dst, a: table, b: rows, m, n, k, ..Command::default() }
    }

    /// dst[tokens,heads,dim] = a turned by position and freqs[dim/2]
    pub fn rope(dst: Operand, a: Operand, freqs: Operand, tokens: u32, heads: u32, dim: u32, position: u32) -> Command {
        Command { op: abi::ROPE, dst, a, b: freqs, m: tokens, n: heads, k: dim, params: params(&[position]), ..Command::default() }
    }

    /// rows[m,n] of keys and values go to their caches[size,n] from row at
    #[allow(clippy::too_many_arguments)]
    pub fn kv_append(keys: Operand, values: Operand, key: Operand, value: Operand, m: u32, n: u32, size: u32, at: u32) -> Command {
        Command { op: abi::KV_APPEND, dst: keys, a: key, b: value, c: values, m, n, k: size, params: params(&[at]), ..Command::default() }
    }

    /// dst[tokens,heads,dim] = attention of a to rows of the caches of kv heads
    #[allow(clippy::too_many_arguments)]
    pub fn attention(dst: Operand, a: Operand, keys: Operand, values: Operand, tokens: u32, heads: u32, dim: u32, kv: u32, position: u32, rows: u32) -> Command {
        Command { op: abi::ATTENTION, dst, a, b: keys, c: values, m: tokens, n: heads, k: dim, l: kv, params: params(&[position, rows]), ..Command::default() }
    }

    /// dst[m], integers = the column of the largest of each row of a[m,n]
    pub fn argmax(dst: Operand, a: Operand, m: u32, n: u32) -> Command {
        Command { op: abi::ARGMAX, dst, a, m, n, ..Command::default() }
    }

    /// dst[m,k] and which[m,k], integers = the k largest of each row of a[m,n]
    pub fn topk(dst: Operand, which: Operand, a: Operand, m: u32, n: u32, k: u32) -> Command {
        Command { op: abi::TOPK, dst, a, c: which, m, n, k, ..Command::default() }
    }

    /// dst[m], integers = a column drawn from each row of a[m,n]; top_k 0 and top_p 0 are off
    #[allow(clippy::too_many_arguments)]
    pub fn sample(dst: Operand, a: Operand, m: u32, n: u32, temperature: f32, top_k: u32, top_p: f32, seed: u64, counter: u64) -> Command {
        let (s, c) = (seed, counter);
        let p = params(&[s as u32, (s >> 32) as u32, c as u32, (c >> 32) as u32, temperature.to_bits(), top_p.to_bits()]);
        Command { op: abi::SAMPLE, dst, a, m, n, k: top_k, params: p, ..Command::default() }
    }

    /// dst[m,n] = bits, of a float (`to_bits`) or an integer
    pub fn fill(dst: Operand, m: u32, n: u32, bits: u32) -> Command {
        Command { op: abi::FILL, dst, m, n, params: params(&[bits]), ..Command::default() }
    }

    /// dst[m,n] = a; rows are lda and ldd elements apart, 0 is n
    pub fn copy(dst: Operand, a: Operand, m: u32, n: u32, lda: u32, ldd: u32) -> Command {
        Command { op: abi::COPY, dst, a, m, n, params: params(&[lda, ldd]), ..Command::default() }
    }
}
