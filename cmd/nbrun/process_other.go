//go:build !unix

package main

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

// A result is the result of a process.
type result struct {
	outputs []any
	status  string
	cpu     time.Duration
}

func runProcess(context.Context, *exec.Cmd, time.Duration, string) (result, error) {
	return result{}, errors.New("running notebooks requires Unix: it uses named pipes")
}
