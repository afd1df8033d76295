//go:build !linux

package main

import "errors"

func deviceMapper() error { return errors.New("not Linux") }
