package quorum

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// logger gives raft's news to log, for who looks for a fault in it: what it calls an
// error, such as a keeper that does not answer, is its trade.
func logger(log *slog.Logger) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, Output: slogWriter{log}, JSONFormat: true})
}

// trace is below what a node prints.
const trace = slog.LevelDebug - 4

type slogWriter struct{ log *slog.Logger }

func (w slogWriter) Write(line []byte) (int, error) {
	var l struct {
		Message string `json:"@message"`
		Error   any    `json:"error"`
	}
	if json.Unmarshal(line, &l) != nil {
		return len(line), nil
	}
	args := []any{}
	if l.Error != nil {
		args = append(args, "err", l.Error)
	}
	w.log.Log(context.Background(), trace, "raft: "+l.Message, args...)
	return len(line), nil
}
