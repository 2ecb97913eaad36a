package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/ledger/tree"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

func (t terminal) backupCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "backup", Usage: "copy the ledger of this home's keeper to a folder, while it runs", ArgsUsage: "DIR",
			Description: "meshctl ledger backup /mnt/backup/ledger-1\nmeshctl ledger verify --dir /mnt/backup/ledger-1",
			Action:      t.ledgerBackup,
		},
		{
			Name: "restore", Usage: "put a backup in the place of this home's ledger; its keeper must not run", ArgsUsage: "DIR",
			Flags:       []cli.Flag{&cli.BoolFlag{Name: "replace", Usage: "move the ledger that is there aside, and lose what only it has"}},
			Description: "meshctl ledger restore /mnt/backup/ledger-1\nmeshctl ledger restore /mnt/backup/ledger-1 --replace",
			Action:      t.ledgerRestore,
		},
	}
}

type backupView struct {
	Dir  string   `json:"dir"`
	Head headView `json:"head"`
}

var backupColumns = []column[backupView]{
	{head: "dir", cell: func(v backupView) string { return v.Dir }},
	{head: "tree head", cell: func(v backupView) string { return fmt.Sprintf("%d %s", v.Head.Size, v.Head.Root) }},
}

func (t terminal) ledgerBackup(c *cli.Context) error {
	args, err := operands(c, 1, 1)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	at, err := home(c)
	if err != nil {
		return err
	}
	m, base, err := ownMesh(at)
	if err != nil {
		return err
	}
	head, err := backup(c.Context, at, base, m, dir)
	if errors.Is(err, fs.ErrExist) {
		return usage("", "ledger backup: %s exists: name a folder that does not", args[0])
	}
	if err != nil {
		return err
	}
	t.hint("check", "meshctl ledger verify --dir "+args[0])
	return show(t, c, backupView{args[0], head}, backupColumns)
}

// backup has the node that runs write the copy, or does it itself when none does.
func backup(ctx context.Context, at, base string, m signedMesh, dir string) (headView, error) {
	s, err := takeSeat(base)
	if errors.Is(err, errTaken) {
		key, err := identity.Open(keyFile(at))
		if err != nil {
			return headView{}, err
		}
		var rep wire.HeadReply
		err = user{home: at, key: key, patience: time.Hour}.own(ctx, m, base, func(ctx context.Context, cl *client.Client, id record.NodeID) error {
			rep, err = cl.Backup(ctx, id, dir)
			return err
		})
		return headView{rep.Size, rep.Root}, err
	}
	if err != nil {
		return headView{}, err
	}
	defer s.leave()
	if _, err := os.Stat(filepath.Join(base, "ledger")); err != nil {
		return headView{}, usage("meshctl ledger mirror DIR", "ledger backup: this home keeps no ledger: copy the mesh's with mirror")
	}
	key, err := identity.Open(nodeKeyFile(at))
	if err != nil {
		return headView{}, err
	}
	l, err := ledger.Open(filepath.Join(base, "ledger"), m, key, ledger.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return headView{}, err
	}
	head := l.Head()
	return headView{head.Size, head.Root}, errors.Join(l.Backup(dir, head), l.Close())
}

func (t terminal) ledgerRestore(c *cli.Context) error {
	args, err := operands(c, 1, 1)
	if err != nil {
		return err
	}
	at, err := home(c)
	if err != nil {
		return err
	}
	m, base, err := ownMesh(at)
	if err != nil {
		return err
	}
	s, err := takeSeat(base)
	if errors.Is(err, errTaken) {
		return &refusal{status: 1, text: fmt.Sprintf("ledger restore: process %d runs this home's node", lockPID(base)), next: "end it first"}
	}
	if err != nil {
		return err
	}
	defer s.leave()
	head, err := vetBackup(c.Context, t, args[0], m)
	if err != nil {
		return err
	}
	to := filepath.Join(base, "ledger")
	if _, err := os.Stat(to); err == nil {
		if !c.Bool("replace") {
			return usage("meshctl ledger restore "+args[0]+" --replace", "ledger restore: %s is there, %s; the backup has %d entries", to, sizeOf(to, m), head.Size)
		}
		if err := os.Rename(to, to+time.Now().UTC().Format(".20060102T150405.000Z")); err != nil {
			return fmt.Errorf("ledger restore: %w", err)
		}
	}
	if err := copyLedger(args[0], to); err != nil {
		return fmt.Errorf("ledger restore: %w", err)
	}
	return show(t, c, backupView{to, headView{head.Size, head.Root}}, backupColumns)
}

// vetBackup verifies all of a backup.
func vetBackup(ctx context.Context, t terminal, dir string, m signedMesh) (tree.Head, error) {
	l, err := ledger.OpenReadOnly(dir, m, ledger.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return tree.Head{}, fmt.Errorf("ledger restore: %w", err)
	}
	defer l.Close()
	scr := newScreen(t)
	defer scr.close()
	rep, err := l.Verify(ctx, func(done, total uint64) { scr.at("verify", done, total, fmt.Sprintf("%d of %d entries", done, total)) })
	if err != nil {
		return rep.Head, fmt.Errorf("ledger restore: %w", err)
	}
	return rep.Head, nil
}

// sizeOf says how long a ledger is that may be damaged.
func sizeOf(dir string, m signedMesh) string {
	l, err := ledger.OpenReadOnly(dir, m, ledger.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "and cannot be read"
	}
	defer l.Close()
	return fmt.Sprintf("with %d entries", l.Head().Size)
}

// copyLedger copies a ledger's files, so that to is there whole or not at all.
func copyLedger(from, to string) error {
	fresh := to + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(filepath.Join(fresh, rel), 0o700)
		case rel == "head" || rel == "ballast" || rel == "mesh.cbor" || d.Name() == "LOCK":
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is not a file", path)
		}
		return copyFile(path, filepath.Join(fresh, rel))
	})
	if err != nil {
		return err
	}
	return os.Rename(fresh, to)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
