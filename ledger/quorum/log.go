package quorum

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// logger gives raft's news to log, a level lower than raft thinks: what it warns of,
// such as an election, is its trade.
func logger(log *slog.Logger) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, Output: slogWriter{log}, JSONFormat: true})
}

type slogWriter struct{ log *slog.Logger }

func (w slogWriter) Write(line []byte) (int, error) {
	var l struct {
		Level   string `json:"@level"`
		Message string `json:"@message"`
		Error   any    `json:"error"`
	}
	if json.Unmarshal(line, &l) != nil {
		return len(line), nil
	}
	level := slog.LevelDebug
	if l.Level == "error" {
		level = slog.LevelInfo
	}
	args := []any{}
	if l.Error != nil {
		args = append(args, "err", l.Error)
	}
	w.log.Log(context.Background(), level, "quorum: "+l.Message, args...)
	return len(line), nil
}
