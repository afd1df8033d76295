//go:build !linux

package loopdev

import "context"

// Bind returns ErrNone.
func Bind(context.Context, string, string, bool) (string, error) { return "", ErrNone }

// Unbind returns ErrNone.
func Unbind(context.Context, Binding) error { return ErrNone }

// List returns nothing.
func List(func(string) bool) ([]Binding, error) { return nil, nil }

// Over returns nothing.
func Over(...string) ([]Binding, error) { return nil, nil }

// Grow returns ErrNone.
func Grow(Binding) error { return ErrNone }

// EnableDirectIO returns ErrNone.
func EnableDirectIO(Binding) error { return ErrNone }

// Status returns nothing.
func Status(string) (Binding, error) { return Binding{}, nil }

// At returns nothing.
func At(string) (Binding, error) { return Binding{}, nil }
