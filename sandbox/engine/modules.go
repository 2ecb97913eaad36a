package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"idlemesh/sandbox"
)

// maxModule is the largest module in bytes; the admission scan has the same.
const maxModule = 64 << 20

// expansion is how many bytes of memory a compiled module takes for each of its
// own, measured at 2 to 4 for the machine code, and as much again for the rest.
const expansion = 6

// A module is compiled once and instantiated by many runs.
type module struct {
	hash [32]byte
	size uint64
	code wazero.CompiledModule

	// first is held by the first instantiation: wazero builds tables in it that
	// later ones read without a lock.
	first sync.Mutex
	ready bool

	users int    // under modules.mu
	used  uint64 // by modules.clock, under modules.mu
}

// modules are the compiled modules of an engine, the least recently used closed
// when they are too many.
type modules struct {
	eng *Engine

	compile sync.Mutex // one at a time: two compilers are busy already with one module

	mu     sync.Mutex
	names  map[sandbox.Input][32]byte // equal names are equal bytes
	byHash map[[32]byte]*module
	total  uint64
	clock  uint64
}

func (ms *modules) init(e *Engine) {
	ms.eng, ms.names, ms.byHash = e, map[sandbox.Input][32]byte{}, map[[32]byte]*module{}
}

// A badModule is an error that the tenant's module is to blame for.
type badModule struct{ err error }

func (b badModule) Error() string { return b.err.Error() }

// get returns the module of that name, ready to run, until put. Its error is a
// badModule unless the host is to blame.
func (ms *modules) get(ctx context.Context, name sandbox.Input, h sandbox.Host) (*module, error) {
	if m := ms.named(name); m != nil {
		return m, nil
	}
	ms.compile.Lock()
	defer ms.compile.Unlock()
	if m := ms.named(name); m != nil {
		return m, nil
	}
	wasm, err := load(h, name)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(wasm)
	if m := ms.hashed(name, hash); m != nil {
		return m, nil
	}
	if wasm, err = ms.eng.rewritten(wasm, hash); err != nil {
		return nil, err
	}
	code, err := ms.eng.rt.CompileModule(experimental.WithCompilationWorkers(ctx, 2), wasm)
	if err != nil {
		return nil, badModule{err}
	}
	if err := runnable(code); err != nil {
		return nil, badModule{errors.Join(err, code.Close(ctx))}
	}
	return ms.add(ctx, name, &module{hash: hash, size: expansion * uint64(len(wasm)), code: code}), nil
}

func runnable(code wazero.CompiledModule) error {
	start, ok := code.ExportedFunctions()["_start"]
	if !ok {
		return errors.New("the module exports no _start function: build it as a command, not as a library")
	}
	if len(start.ParamTypes())+len(start.ResultTypes()) != 0 {
		return errors.New("the module's _start function takes or returns values: WASI preview 1 wants neither")
	}
	return nil
}

func (ms *modules) named(name sandbox.Input) *module {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	hash, ok := ms.names[name]
	if !ok {
		return nil
	}
	return ms.useLocked(hash)
}

func (ms *modules) hashed(name sandbox.Input, hash [32]byte) *module {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m := ms.useLocked(hash)
	if m != nil {
		ms.nameLocked(name, hash)
	}
	return m
}

func (ms *modules) useLocked(hash [32]byte) *module {
	m := ms.byHash[hash]
	if m != nil {
		ms.clock++
		m.users, m.used = m.users+1, ms.clock
	}
	return m
}

// nameLocked remembers a name. There are few modules and names are short, so
// forgetting all of them now and then costs little.
func (ms *modules) nameLocked(name sandbox.Input, hash [32]byte) {
	if len(ms.names) >= 1024 {
		clear(ms.names)
	}
	ms.names[name] = hash
}

// add files m, in use, and closes the least recently used others beyond the cap.
func (ms *modules) add(ctx context.Context, name sandbox.Input, m *module) *module {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.byHash[m.hash] = m
	ms.total += m.size
	ms.nameLocked(name, m.hash)
	ms.useLocked(m.hash)
	for ms.total > ms.eng.cfg.Code && ms.evictLocked(ctx) {
	}
	return m
}

func (ms *modules) evictLocked(ctx context.Context) bool {
	var oldest *module
	for _, m := range ms.byHash {
		if m.users == 0 && (oldest == nil || m.used < oldest.used) {
			oldest = m
		}
	}
	if oldest == nil {
		return false
	}
	delete(ms.byHash, oldest.hash)
	ms.total -= oldest.size
	oldest.code.Close(ctx)
	return true
}

func (ms *modules) put(m *module) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m.users--
}

func load(h sandbox.Host, in sandbox.Input) ([]byte, error) {
	if in.Size < 0 || in.Size > maxModule {
		return nil, badModule{fmt.Errorf("the module has %d bytes, at most %d are allowed", in.Size, maxModule)}
	}
	r, err := h.Open(in.Blob)
	if err != nil {
		return nil, err
	}
	b := make([]byte, in.Size)
	if n, err := r.ReadAt(b, in.Offset); n < len(b) {
		return nil, fmt.Errorf("module ends after %d of %d bytes: %w", n, len(b), err)
	}
	return b, nil
}
