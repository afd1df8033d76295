package kubelet

import (
	"path"
	"slices"
	"strings"
)

// An image says what a container without a command of its own executes.
type image struct{ entrypoint, command []string }

// images are the images whose commands are known, by the last element of their name. A container of another image
// without a command runs until it is stopped.
var images = map[string]image{
	"agnhost": {entrypoint: []string{"agnhost"}, command: []string{"pause"}},
	"busybox": {command: []string{"sh"}},
}

// imageName returns the last element of an image's name, without tag and digest.
func imageName(reference string) string {
	name, _, _ := strings.Cut(path.Base(reference), "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}

// imageArgs returns what a container with arguments and without a command executes; nothing if that is not known.
func imageArgs(reference string, args []string) []string {
	img, known := images[imageName(reference)]
	switch {
	case !known:
		return nil
	case len(args) > 0:
		return slices.Concat(img.entrypoint, args)
	default:
		return slices.Concat(img.entrypoint, img.command)
	}
}
