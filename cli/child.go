package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// A child is a meshctl that this one has started and ends.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended with err
	err  error
	out  *prefixed
}

// startChild starts meshctl with args. What it says goes to w behind its name.
func startChild(name string, args []string, w *lines) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out := &prefixed{name: name, to: w}
	c := &child{name: name, out: out, done: make(chan struct{}),
		cmd: &exec.Cmd{Path: exe, Args: append([]string{"meshctl"}, args...), Env: os.Environ(), Stdout: out, Stderr: out, SysProcAttr: dependent()}}
	started := make(chan error, 1)
	go func() {
		// Linux ends a child with the thread that started it, so that must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.done)
		}
	}()
	return c, <-started
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// how says how an ended child ended.
func (c *child) how() string {
	if c.err == nil {
		return "exit status 0"
	}
	return c.err.Error()
}

// last is the last line that it said.
func (c *child) last() string { return c.out.lastLine() }

// end asks the child to end and, should it not, ends it.
func (c *child) end() {
	if c.ended() {
		return
	}
	_ = askToEnd(c.cmd.Process) // it may end just now
	select {
	case <-c.done:
	case <-time.After(2 * closeTime):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}

// lines is a writer that several share, a line at a time.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

// A prefixed writes whole lines behind a name, and remembers the last.
type prefixed struct {
	name string
	to   *lines

	mu         sync.Mutex
	part, last []byte
}

// maxLine bounds what is kept of a line without end.
const maxLine = 4 << 10

func (p *prefixed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.part = append(p.part, b...)
	for {
		i := bytes.IndexByte(p.part, '\n')
		if i < 0 && len(p.part) < maxLine {
			return len(b), nil
		}
		if i < 0 {
			i = len(p.part) - 1
		}
		if line := bytes.TrimSpace(p.part[:i]); bytes.HasPrefix(line, []byte("try: ")) {
			p.last = append(append(p.last, "; "...), line...) // the remedy belongs to the error above
		} else {
			p.last = append(p.last[:0], line...)
		}
		line := clean(string(p.part[:i]))
		p.part = append(p.part[:0], p.part[i+1:]...)
		p.to.mu.Lock()
		_, err := fmt.Fprintf(p.to.w, "%s | %s\n", p.name, line)
		p.to.mu.Unlock()
		if err != nil {
			return 0, err
		}
	}
}

func (p *prefixed) lastLine() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.part) > 0 {
		return string(p.part)
	}
	return string(p.last)
}
