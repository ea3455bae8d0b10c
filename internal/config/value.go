package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// errWant makes an error whose text tells what would be right.
func errWant(want string) error { return errors.New(want) }

// intMax bounds counts: the largest that fits on every platform.
const intMax = 1<<31 - 1

const (
	boolWant = "want true or false"
	intWant  = "want a whole number"
)

// setText parses text into the value p points to: what environment, flags and
// the table's defaults hold. A text that is refused changes nothing.
func setText(p any, text string) error {
	switch p := p.(type) {
	case *string:
		*p = text
		return nil
	case *bool:
		return store(p, parseBool, text)
	case *int:
		return store(p, parseInt, text)
	case *ByteSize:
		return store(p, ParseSize, text)
	case *time.Duration:
		return store(p, ParseDuration, text)
	case *Expiry:
		return store((*uint64)(p), ParseExpiry, text)
	case *[]string:
		return store(p, parseList, text)
	}
	panic(fmt.Sprintf("config: no parser for %T", p))
}

func store[T any](p *T, parse func(string) (T, error), text string) error {
	value, err := parse(text)
	if err == nil {
		*p = value
	}
	return err
}

// setTOML stores a value of a file into the value p points to. A file says of
// what type its values are, and a wrong type is an error, not a guess.
func setTOML(p any, value any) error {
	switch v := value.(type) {
	case bool:
		if _, ok := p.(*bool); ok {
			return setText(p, strconv.FormatBool(v))
		}
	case string:
		switch p.(type) {
		case *string, *ByteSize, *time.Duration, *Expiry:
			return setText(p, v)
		}
	case int64:
		return setTOMLInt(p, v)
	case []any:
		if list, ok := p.(*[]string); ok {
			return setTOMLList(list, v)
		}
	}
	return errWant(wantOf(p))
}

// setTOMLInt stores a bare number: a count, a size in bytes, or a time that
// needs no unit because it is 0.
func setTOMLInt(p any, v int64) error {
	switch p := p.(type) {
	case *int, *ByteSize, *time.Duration, *Expiry:
		return setText(p, strconv.FormatInt(v, 10))
	case *string: // system.sharding.cpu_allocation is a count or a text
		if v >= 0 {
			*p = strconv.FormatInt(v, 10)
			return nil
		}
	}
	return errWant(wantOf(p))
}

func setTOMLList(list *[]string, values []any) error {
	out := make([]string, 0, len(values))
	for _, value := range values {
		text, ok := value.(string)
		if !ok {
			return errWant(wantOf(list))
		}
		out = append(out, text)
	}
	*list = out
	return nil
}

// wantOf says which values a place takes.
func wantOf(p any) string {
	switch p.(type) {
	case *bool:
		return boolWant
	case *int:
		return intWant
	case *ByteSize:
		return sizeWant
	case *time.Duration:
		return durationWant
	case *Expiry:
		return durationWant + ", never_expire or server_default"
	case *[]string:
		return `want a list of texts, such as ["a", "b"]`
	default:
		return `want a text in quotes`
	}
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errWant(boolWant)
}

func parseInt(text string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil || n > intMax {
		return 0, errWant(intWant + " of at most " + strconv.Itoa(intMax))
	}
	return int(n), nil
}

// parseList reads "[a, b]", "['a', 'b']" or "a,b"; elements hold no comma.
func parseList(text string) ([]string, error) {
	s := strings.TrimSpace(text)
	if strings.HasPrefix(s, "[") != strings.HasSuffix(s, "]") {
		return nil, errWant("want a list, such as [a, b]")
	}
	s = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	out := []string{}
	if s == "" {
		return out, nil
	}
	for element := range strings.SplitSeq(s, ",") {
		element = strings.Trim(strings.TrimSpace(element), `"'`)
		if element == "" {
			return nil, errWant("want a list without empty elements, such as [a, b]")
		}
		out = append(out, element)
	}
	return out, nil
}

// valueText returns the value p points to in the form that setText reads back.
func valueText(p any) string {
	switch p := p.(type) {
	case *string:
		return *p
	case *bool:
		return strconv.FormatBool(*p)
	case *int:
		return strconv.Itoa(*p)
	case *ByteSize:
		return p.String()
	case *time.Duration:
		return FormatDuration(*p)
	case *Expiry:
		return p.String()
	case *[]string:
		return "[" + strings.Join(*p, ", ") + "]"
	}
	panic(fmt.Sprintf("config: no text for %T", p))
}

// valueTOML returns the value p points to as a file writes it.
func valueTOML(p any) string {
	switch p := p.(type) {
	case *bool, *int:
		return valueText(p)
	case *[]string:
		quoted := make([]string, len(*p))
		for i, s := range *p {
			quoted[i] = quoteTOML(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	default:
		return quoteTOML(valueText(p))
	}
}

// quoteTOML writes a basic string. TOML knows the escapes \" \\ and \uXXXX; the
// other ones of Go's quoting it does not.
func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// kindName names the type of a value in tables for people.
func kindName(p any) string {
	switch p.(type) {
	case *bool:
		return "bool"
	case *int:
		return "count"
	case *ByteSize:
		return "size"
	case *time.Duration:
		return "duration"
	case *Expiry:
		return "expiry"
	case *[]string:
		return "list"
	default:
		return "text"
	}
}
