//go:build !unix

package main

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

// result is what came of a process.
type result struct {
	outputs []any
	status  string
	cpu     time.Duration
}

func runProcess(context.Context, *exec.Cmd, time.Duration, string) (result, error) {
	return result{}, errors.New("notebooks run on Unix only: they take named pipes")
}
