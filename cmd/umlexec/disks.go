package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// parseSize parses a number of bytes with an optional suffix K, M, G or T (powers of 1024).
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
		return 0, fmt.Errorf("invalid size %q: want a size such as 512M", text)
	}
	return size << shift, nil
}

// tempFiles are the files of temporary disks.
type tempFiles []string

// makeDisks creates the disks that are given by size and adds all disks to the guest, in order.
func makeDisks(o *options) (tempFiles, error) {
	var made tempFiles
	for _, disk := range o.disks {
		size, err := parseSize(disk)
		if err != nil { // a path
			if _, statErr := os.Stat(disk); statErr != nil {
				return nil, errors.Join(fmt.Errorf("invalid disk %q: want a size or a file: %w", disk, statErr),
					made.remove())
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

// makeDisk creates an empty sparse file.
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
