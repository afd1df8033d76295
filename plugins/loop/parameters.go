package loop

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The parameters of a storage class.
const (
	// allocateKey selects how blocks in Dir are allocated: allocateSparse, the default, or
	// allocateFull.
	allocateKey = "allocate"
	// allocateSparse allocates blocks when they are written, and frees them when they are
	// discarded.
	allocateSparse = "sparse"
	// allocateFull allocates all blocks at once. It keeps them unless the volume is set to discard.
	allocateFull = "full"
	// directIOKey selects whether the device bypasses the page cache of the image: "true" or
	// "false", the default.
	directIOKey = "directIO"
)

// The settings of a volume: mutable parameters of a VolumeAttributesClass.
const (
	// discardKey selects whether a volume's file system discards freed blocks at once: "true", the
	// default of sparse volumes, or "false". It takes effect when the volume is staged the next
	// time.
	discardKey = "discard"
	// readAheadKey is the kernel's read-ahead of the device in KiB. It takes effect at once.
	// Without it the kernel decides.
	readAheadKey = "readAheadKiB"

	readAheadMax = 65536
)

// The allowed values of each key; nil means any number from 0 to readAheadMax.
var (
	parametersAllowed = map[string][]string{allocateKey: {allocateSparse, allocateFull}, directIOKey: {"true", "false"}}
	settingsAllowed   = map[string][]string{discardKey: {"true", "false"}, readAheadKey: nil}
)

// ValidateParameters implements blockcsi.Pool.
func (p *pool) ValidateParameters(parameters, settings map[string]string) error {
	if err := checkAll("parameters", parameters, parametersAllowed); err != nil {
		return err
	}
	if parameters[directIOKey] == "true" && !p.directIO {
		return status.Errorf(codes.InvalidArgument, "parameters: %s: the file system of %s has no direct I/O",
			directIOKey, p.dir)
	}
	return checkAll("mutable_parameters", settings, settingsAllowed)
}

// checkAll returns InvalidArgument for the first invalid key or value.
func checkAll(what string, given map[string]string, allowed map[string][]string) error {
	for _, key := range slices.Sorted(maps.Keys(given)) {
		values, known := allowed[key]
		number, err := strconv.Atoi(given[key])
		switch {
		case !known:
			return status.Errorf(codes.InvalidArgument, "%s: unknown key %q (have %s)",
				what, key, strings.Join(slices.Sorted(maps.Keys(allowed)), ", "))
		case values == nil && (err != nil || number < 0 || number > readAheadMax):
			return status.Errorf(codes.InvalidArgument, "%s: %s is %q, want a number from 0 to %d", what, key,
				given[key], readAheadMax)
		case values != nil && !slices.Contains(values, given[key]):
			return status.Errorf(codes.InvalidArgument, "%s: %s is %q, want %s", what, key, given[key],
				strings.Join(values, " or "))
		}
	}
	return nil
}

// discards reports whether a volume's file system discards freed blocks.
func discards(parameters, settings map[string]string) bool {
	if value, set := settings[discardKey]; set {
		return value == "true"
	}
	return parameters[allocateKey] != allocateFull
}

// readAhead returns the read-ahead of a volume's device in KiB. It reports false if the kernel
// decides.
func readAhead(settings map[string]string) (int64, bool) {
	value, set := settings[readAheadKey]
	number, err := strconv.ParseInt(value, 10, 64) // ValidateParameters has parsed it
	return number, set && err == nil
}
