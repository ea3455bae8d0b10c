package telemetry

import (
	"log/slog"
	"strings"

	"galgo/internal/config"
)

// hidden stands for a secret that is set.
const hidden = "******"

// replace gives attributes the form in which they are written: times in UTC, so
// that logs of several nodes can be laid side by side, levels by galgo's names,
// secrets not at all. Values are resolved before.
func replace(_ []string, a slog.Attr) slog.Attr {
	switch {
	case isSecret(a):
		a.Value = slog.StringValue(hidden)
	case a.Value.Kind() == slog.KindTime:
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	case a.Value.Kind() == slog.KindAny && a.Value.Any() == config.LevelTrace:
		a.Value = slog.StringValue("TRACE")
	}
	return a
}

// isSecret is the last line of defence: nothing should log a secret at all. An
// empty value is no secret, and that it is empty is worth knowing.
func isSecret(a slog.Attr) bool {
	switch a.Value.Kind() {
	case slog.KindAny:
		return holdsSecrets(a.Value.Any()) || namesSecret(a.Key)
	case slog.KindString:
		return a.Value.String() != "" && namesSecret(a.Key)
	}
	return false // a number, a time, a switch: told by their name they count or bound secrets
}

func holdsSecrets(value any) bool {
	switch value.(type) {
	case config.Config, *config.Config, config.Root, *config.Root:
		return true
	}
	return false
}

func namesSecret(key string) bool {
	key = strings.ToLower(key)
	return strings.Contains(key, "password") || strings.Contains(key, "secret") || strings.HasSuffix(key, "token")
}
