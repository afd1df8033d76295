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
	// allocateKey is how blocks are taken from Dir: AllocateSparse, which is the
	// default, or AllocateFull.
	allocateKey = "allocate"
	// allocateSparse takes blocks as they are written, and gives them back as they are discarded.
	allocateSparse = "sparse"
	// allocateFull takes all blocks at once, and keeps them unless the volume is set
	// to discard.
	allocateFull = "full"
	// directIOKey is whether the device goes past the kernel's cache of the
	// volume's file: "true" or "false", which is the default.
	directIOKey = "directIO"
)

// The settings of a volume: mutable parameters, of a VolumeAttributesClass.
const (
	// discardKey is whether a volume's file system gives back at once, to Dir, what
	// it frees: "true", the default of sparse volumes, or "false". It holds from when
	// the volume is staged the next time.
	discardKey = "discard"
	// readAheadKey is how much the kernel reads ahead from the device, in KiB. It
	// holds at once. Without it the kernel decides.
	readAheadKey = "readAheadKiB"

	readAheadMax = 65536
)

// allowed tells of each key what its values are; nil is any number from 0 to readAheadMax.
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
		return status.Errorf(codes.InvalidArgument, "parameters: %s: the file system of %s has no direct I/O", directIOKey, p.dir)
	}
	return checkAll("mutable_parameters", settings, settingsAllowed)
}

// checkAll returns InvalidArgument for the first key or value that is not allowed.
func checkAll(what string, given map[string]string, allowed map[string][]string) error {
	for _, key := range slices.Sorted(maps.Keys(given)) {
		values, known := allowed[key]
		number, err := strconv.Atoi(given[key])
		switch {
		case !known:
			return status.Errorf(codes.InvalidArgument, "%s: %q is not one of this driver's, which are %s",
				what, key, strings.Join(slices.Sorted(maps.Keys(allowed)), ", "))
		case values == nil && (err != nil || number < 0 || number > readAheadMax):
			return status.Errorf(codes.InvalidArgument, "%s: %s is %q, allowed is a number from 0 to %d", what, key, given[key], readAheadMax)
		case values != nil && !slices.Contains(values, given[key]):
			return status.Errorf(codes.InvalidArgument, "%s: %s is %q, allowed is %s", what, key, given[key], strings.Join(values, " or "))
		}
	}
	return nil
}

// discards tells whether a volume's file system gives back what it frees.
func discards(parameters, settings map[string]string) bool {
	if value, set := settings[discardKey]; set {
		return value == "true"
	}
	return parameters[allocateKey] != allocateFull
}

// readAhead is how much is read ahead from a volume's device, in KiB; false if the
// kernel decides.
func readAhead(settings map[string]string) (int64, bool) {
	value, set := settings[readAheadKey]
	number, err := strconv.ParseInt(value, 10, 64) // Check has read it
	return number, set && err == nil
}
