package telemetry

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"galgo/internal/config"
)

func TestLevels(t *testing.T) {
	all := []struct {
		level slog.Level
		name  string
	}{{config.LevelTrace, "TRACE"}, {slog.LevelDebug, "DEBUG"}, {slog.LevelInfo, "INFO"}, {slog.LevelWarn, "WARN"}, {slog.LevelError, "ERROR"}}
	for i, threshold := range []string{"trace", "debug", "info", "warn", "error", "off"} {
		t.Run(threshold, func(t *testing.T) {
			b := start(t, t.TempDir(), func(c *config.Logging) { c.Level = threshold })
			b.Open()
			var want, text, lines []string
			for _, l := range all {
				b.Logger().Log(t.Context(), l.level, "hello")
			}
			for _, l := range all[min(i, len(all)):] {
				want = append(want, l.name)
			}
			for line := range strings.Lines(b.stderr.String()) {
				_, rest, _ := strings.Cut(line, " level=")
				name, _, _ := strings.Cut(rest, " ")
				text = append(text, name)
			}
			for _, r := range records(t, b.path("")) {
				lines = append(lines, r["level"].(string))
			}
			if !slices.Equal(text, want) || !slices.Equal(lines, want) {
				t.Errorf("standard error has levels %v, the file %v, want %v", text, lines, want)
			}
		})
	}
}

// One record, in both forms; times in UTC whatever the zone of the process.
func TestForms(t *testing.T) {
	b := start(t, t.TempDir(), nil)
	b.Open()
	record := slog.NewRecord(time.Date(2026, 3, 4, 5, 6, 7, 8_000_000, time.FixedZone("east", 3600)), slog.LevelWarn, "odd \"thing\"\n", 0)
	record.AddAttrs(slog.Int("op", 7), slog.Group("peer", slog.Int("level", 3), slog.Time("since", time.Date(2026, 3, 4, 0, 0, 0, 0, time.FixedZone("east", 3600)))))
	must(t, b.Logger().With("group", 1).Handler().Handle(t.Context(), record))
	const text = `time=2026-03-04T04:06:07.008Z level=WARN msg="odd \"thing\"\n" group=1 op=7 peer.level=3 peer.since=2026-03-03T23:00:00.000Z` + "\n"
	if got := b.stderr.String(); got != text {
		t.Errorf("standard error has\n%swant\n%s", got, text)
	}
	const line = `{"time":"2026-03-04T04:06:07.008Z","level":"WARN","msg":"odd \"thing\"\n","group":1,"op":7,"peer":{"level":3,"since":"2026-03-03T23:00:00Z"}}` + "\n"
	got, err := os.ReadFile(b.path(""))
	must(t, err)
	if string(got) != line {
		t.Errorf("the file has\n%swant\n%s", got, line)
	}
}

func TestSecretsAreHidden(t *testing.T) {
	const secret = "xyzzy-0815"
	b := start(t, t.TempDir(), nil)
	b.Open()
	c := config.Default()
	c.Root = config.Root{Username: "admin", Password: secret}
	b.Logger().With("Root_Password", secret).WithGroup("login").Info("hello", "password", secret, "new_password", []byte(secret), "token", secret,
		"access_token", errors.New(secret), "shared_secret", secret, "config", c, "pointer", &c, "root", c.Root, "root_pointer", &c.Root,
		slog.Group("inner", "secret", secret))
	file, err := os.ReadFile(b.path(""))
	must(t, err)
	for where, text := range map[string]string{"standard error": b.stderr.String(), "the file": string(file)} {
		if strings.Contains(text, secret) || strings.Contains(text, "eHl6enkt") { // in base64, too
			t.Errorf("%s tells a secret:\n%s", where, text)
		}
		if n := strings.Count(text, hidden); n != 11 {
			t.Errorf("%s has %d hidden values, want 11:\n%s", where, n, text)
		}
	}
	b.stderr.Reset()
	b.Logger().Info("hello", "password_set", true, "tokens", 3, "password", "", "user", "admin")
	if text := b.stderr.String(); strings.Contains(text, hidden) {
		t.Errorf("hidden though no secret: %s", text)
	}
}

// Until the directory is this process's nothing in it is touched; then all that
// was logged is there. This is what keeps a second server off the first one's logs.
func TestNothingIsTouchedBeforeOpen(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, nil)
	b.number(1)
	b.file.check()
	refused := start(t, dir, nil)
	refused.number(9)
	refused.Close()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Fatalf("before Open the data directory holds %v, %v; want nothing", entries, err)
	}
	b.number(2)
	b.Open()
	b.Open()
	b.number(3)
	if got, want := b.numbers(), []int{1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("the file has records %v, want %v", got, want)
	}
	if info, err := os.Stat(b.path("")); err != nil || info.Mode() != fileMode {
		t.Errorf("mode %v, %v; want %v", info.Mode(), err, fs.FileMode(fileMode))
	}
}

func TestWithoutAFile(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, func(c *config.Logging) { c.FileEnabled = false })
	b.Open()
	b.number(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
	b.Close()
	b.number(2)
	if n := strings.Count(b.stderr.String(), "\n"); n != 2 {
		t.Errorf("standard error has %d records, want 2: %s", n, b.stderr.String())
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the data directory holds %v, %v; want nothing", entries, err)
	}
}

// The next start goes on in the same file; what is logged after Close is on
// standard error alone.
func TestRestartAppends(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, nil)
	b.Open()
	b.number(1)
	b.Close()
	b.Close()
	b.number(7)
	b.file.check()
	if len(b.file.waiting) > 0 {
		t.Errorf("%d bytes wait for a file that is closed", len(b.file.waiting))
	}
	if !strings.Contains(b.stderr.String(), "n=7") {
		t.Errorf("standard error lacks a record logged after Close: %s", b.stderr.String())
	}
	b = start(t, dir, nil)
	b.Open()
	b.number(2)
	if got, want := b.numbers(), []int{1, 2}; !slices.Equal(got, want) {
		t.Errorf("the file has records %v, want %v", got, want)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*config.Logging){
		"system.logging.path":                    func(c *config.Logging) { c.Path = "../logs" },
		"system.logging.rotation_check_interval": func(c *config.Logging) { c.RotationCheckInterval = 0 },
		"system.logging.retention":               func(c *config.Logging) { c.Retention = -1 },
	} {
		c := config.Default().System.Logging
		change(&c)
		if _, err := New(c, t.TempDir(), io.Discard, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error that names %s", err, name)
		}
		c.FileEnabled = false
		if _, err := New(c, t.TempDir(), io.Discard, nil); err != nil {
			t.Errorf("%s matters though there is no file: %v", name, err)
		}
	}
}

// Run removes what has become too old, at the interval and not before, and ends
// with its context.
func TestRunChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, t.TempDir(), func(c *config.Logging) { c.RotationCheckInterval, c.Retention = time.Hour, 90*time.Minute })
		b.file.clock = time.Now
		b.Open()
		for _, suffix := range []string{".1", ".2"} {
			b.write(suffix, "")
		}
		must(t, os.Chtimes(b.path(".1"), time.Now(), time.Now().Add(time.Minute)))
		must(t, os.Chtimes(b.path(".2"), time.Now(), time.Now()))
		must(t, os.Chtimes(b.path(""), time.Now(), time.Now().Add(-24*time.Hour)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Run(ctx) }()
		var seen []int
		for range 3 {
			synctest.Wait()
			n := 0
			for _, suffix := range []string{"", ".1", ".2"} {
				if b.exists(suffix) {
					n++
				}
			}
			seen = append(seen, n)
			time.Sleep(time.Hour) // of the bubble: no time passes outside
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if want := []int{3, 3, 1}; !reflect.DeepEqual(seen, want) {
			t.Errorf("%v files after 0, 1 and 2 hours, want %v: two outlive their 90 minutes after the first", seen, want)
		}
	})
}
