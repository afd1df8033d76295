//go:build !linux

package loopdev

import "context"

// Bind returns ErrNone.
func Bind(context.Context, string, string, bool) (string, error) { return "", ErrNone }

// Unbind returns ErrNone.
func Unbind(context.Context, Bound) error { return ErrNone }

// List returns nothing.
func List(func(string) bool) ([]Bound, error) { return nil, nil }

// Grow returns ErrNone.
func Grow(Bound) error { return ErrNone }

// EnableDirectIO returns ErrNone.
func GoDirect(Bound) error { return ErrNone }

// Peek returns nothing.
func Peek(string) (Bound, error) { return Bound{}, nil }

// At returns nothing.
func At(string) (Bound, error) { return Bound{}, nil }
