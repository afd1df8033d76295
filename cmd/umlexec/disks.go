package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// parseSize reads a number of bytes, with K, M, G or T (powers of 1024) after it.
func parseSize(text string) (int64, error) {
	digits := strings.TrimRight(text, "KMGT")
	shift := 0
	if unit := text[len(digits):]; len(unit) == 1 {
		shift = 10 * (strings.Index("KMGT", unit) + 1)
	} else if unit != "" {
		digits = ""
	}
	size, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || size <= 0 || size<<shift>>shift != size {
		return 0, fmt.Errorf("%q is not a size, as 512M is", text)
	}
	return size << shift, nil
}

// tempFiles are the files of disks that go with the guest.
type tempFiles []string

// makeDisks makes the disks that are asked for by size, and gives the guest all of them, in order.
func makeDisks(o *options) (tempFiles, error) {
	var made tempFiles
	for _, disk := range o.disks {
		size, err := parseSize(disk)
		if err != nil { // a path
			if _, statErr := os.Stat(disk); statErr != nil {
				return nil, errors.Join(fmt.Errorf("disk %q is neither a size nor a file: %w", disk, statErr), made.remove())
			}
			o.guest.Disks = append(o.guest.Disks, disk)
			continue
		}
		file, err := makeDisk(size)
		if file != "" {
			made = append(made, file)
		}
		if err != nil {
			return nil, errors.Join(err, made.remove())
		}
		o.guest.Disks = append(o.guest.Disks, file)
	}
	return made, nil
}

// makeDisk makes an empty file, which takes no room before it is written.
func makeDisk(size int64) (string, error) {
	f, err := os.CreateTemp("", "umlexec-disk-")
	if err != nil {
		return "", err
	}
	return f.Name(), errors.Join(f.Truncate(size), f.Close())
}

func (t tempFiles) remove() error {
	var failed error
	for _, file := range t {
		failed = errors.Join(failed, os.Remove(file))
	}
	return failed
}
