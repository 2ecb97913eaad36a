package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// idleTime is how long a node in the background waits for something to do.
	idleTime = 10 * time.Minute
	maxLog   = 1 << 20 // bytes of embedded.log, above which it starts anew
)

func backgroundLog(home string) string { return filepath.Join(home, "embedded.log") }

// ensureBackground returns once a process in the background runs the embedded node, or
// will as soon as the one that does so now ends.
func ensureBackground(ctx context.Context, home string) error {
	base := embeddedBase(home)
	s, err := takeSeat(base)
	switch {
	case errors.Is(err, errTaken):
		if h, ok := findHolder(base); ok && h.Background {
			return nil
		}
		_, _, err := spawn(home)
		return err
	case err != nil:
		return fmt.Errorf("embedded node: %w", err)
	}
	if err := s.leave(); err != nil {
		return err
	}
	pid, ended, err := spawn(home)
	if err != nil {
		return err
	}
	for end := time.Now().Add(2 * answerTime); time.Now().Before(end); {
		if h, ok := findHolder(base); ok && (h.PID == pid || h.Background) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return fmt.Errorf("node in the background: %s", lastLine(backgroundLog(home)))
		case <-time.After(lookAgain / 2):
		}
	}
	return &refusal{status: 1, text: fmt.Sprintf("node in the background: process %d does not answer", pid), next: "see " + backgroundLog(home)}
}

// spawn starts a background node that outlives this process. The channel is closed if
// it ends before.
func spawn(home string) (pid int, ended <-chan struct{}, err error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, nil, fmt.Errorf("node in the background: %w", err)
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if i, err := os.Stat(backgroundLog(home)); err == nil && i.Size() > maxLog {
		flags |= os.O_TRUNC
	}
	log, err := os.OpenFile(backgroundLog(home), flags, 0o600)
	if err != nil {
		return 0, nil, fmt.Errorf("node in the background: %w", err)
	}
	defer log.Close()
	cmd := &exec.Cmd{Path: exe, Args: []string{"meshctl", "--home", home, "node", "run", "--idle", idleTime.String()},
		Env: os.Environ(), Dir: home, Stdout: log, Stderr: log, SysProcAttr: detached()}
	if err := cmd.Start(); err != nil {
		return 0, nil, fmt.Errorf("node in the background: %w", err)
	}
	gone := make(chan struct{})
	go func() { // ends with the child or with this process
		_ = cmd.Wait()
		close(gone)
	}()
	return cmd.Process.Pid, gone, nil
}

// lastLine is the last that a log says.
func lastLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(lines[len(lines)-1])
}
