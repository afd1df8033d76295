package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/volsim/volsim/kubelet/container"
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

// argsOf returns what a container executes; nothing if that is not known.
func argsOf(spec container.Spec) []string {
	if len(spec.Args) > 0 {
		return spec.Args
	}
	img, known := images[imageName(spec.Image)]
	switch {
	case !known:
		return nil
	case len(spec.ImageArgs) > 0:
		return slices.Concat(img.entrypoint, spec.ImageArgs)
	default:
		return slices.Concat(img.entrypoint, img.command)
	}
}
