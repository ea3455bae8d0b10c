//go:build !linux

package cli

import (
	"errors"
	"os"
)

// isTerminal is not known here: output is as in a pipe.
func isTerminal(any) bool { return false }

func hideInput(*os.File) (restore func(), err error) {
	return nil, errors.New("passwords cannot be asked for on this system")
}
