package kubelet

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Reasons for an image whose name cannot be parsed, in a container's status and in events.
//
// Upstream: pkg/kubelet/images ErrInvalidImageName, pkg/kubelet/events FailedToInspectImage (v1.36).
const (
	reasonInvalidImage  = "InvalidImageName"
	reasonInspectFailed = "InspectFailed"
)

// imageFailure returns why the image of a container has no valid name; "" if it has one. No image is pulled.
//
// Upstream: pkg/kubelet/images imageManager.EnsureImageExists, pkg/util/parsers ParseImageName (v1.36).
func imageFailure(c *corev1.Container) string {
	why := checkImageName(c.Image)
	if why == "" {
		return ""
	}
	return fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name %q: %s", c.Image, c.Image, why)
}

// hasInvalidImage reports whether a container of a pod has an image without a valid name.
func hasInvalidImage(pod *corev1.Pod) bool {
	for _, all := range [...][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range all {
			if checkImageName(all[i].Image) != "" {
				return true
			}
		}
	}
	return false
}

// Errors of image names.
//
// Upstream: github.com/distribution/reference, github.com/opencontainers/go-digest.
const (
	invalidReference = "invalid reference format"
	uppercaseName    = "repository name must be lowercase"
	longName         = "repository name must not be more than 255 characters"
	invalidDigest    = "invalid checksum digest format"
	unknownDigest    = "unsupported digest algorithm"
	digestLength     = "invalid checksum digest length"

	defaultDomain = "docker.io"
	nameMax       = 255
	digestMin     = 32 // digits
)

// checkImageName returns why an image's name is invalid; "" if it is valid: [DOMAIN[:PORT]/]PATH[:TAG][@DIGEST].
//
// Upstream: github.com/distribution/reference v0.6.0 ParseNormalizedNamed.
func checkImageName(image string) string {
	if len(image) == 64 && only(image, isLowerHex) {
		return fmt.Sprintf("invalid repository name (%s), cannot specify 64-byte hexadecimal strings", image)
	}
	domain, rest, official := splitDomain(image)
	if remote, _, _ := strings.Cut(rest, ":"); strings.ToLower(remote) != remote {
		if official {
			remote = "library/" + remote
		}
		return fmt.Sprintf("invalid reference format: repository name (%s) must be lowercase", remote)
	}
	if !isReference(domain, rest) {
		if isReference(strings.ToLower(domain), strings.ToLower(rest)) {
			return uppercaseName
		}
		return invalidReference
	}
	name, digest, digested := strings.Cut(rest, "@")
	path, _, _ := strings.Cut(name, ":")
	size := len(path)
	if official {
		size += len("library/")
	}
	if !isDomain(domain) {
		size += len(domain) + 1
	}
	if size > nameMax {
		return longName
	}
	if digested {
		return checkDigest(digest)
	}
	return ""
}

// splitDomain returns the registry of an image's name and the rest. official says that the rest has no folder on the
// default registry.
func splitDomain(image string) (domain, rest string, official bool) {
	first, after, found := strings.Cut(image, "/")
	switch {
	case !found:
		return defaultDomain, image, true
	case first == "index.docker.io", first == defaultDomain:
		return defaultDomain, after, !strings.Contains(after, "/")
	case first == "localhost", strings.ContainsAny(first, ".:"), strings.ToLower(first) != first:
		return first, after, false
	}
	return defaultDomain, image, false
}

// isReference reports whether the parts of a name match its grammar.
func isReference(domain, rest string) bool {
	name, digest, digested := strings.Cut(rest, "@")
	path, tag, tagged := strings.Cut(name, ":")
	if tagged && !isTag(tag) || digested && !isDigest(digest) || !isDomain(domain) && !isComponent(domain) {
		return false
	}
	for component := range strings.SplitSeq(path, "/") {
		if !isComponent(component) {
			return false
		}
	}
	return true
}

// isDomain reports whether a text is a host name or an address in brackets, with an optional port.
func isDomain(text string) bool {
	host := text
	if address, after, closed := strings.Cut(text, "]"); closed && strings.HasPrefix(address, "[") {
		if len(address) == 1 || !only(address[1:], func(c byte) bool { return c == ':' || isHex(c) }) {
			return false
		}
		return after == "" || after[0] == ':' && len(after) > 1 && only(after[1:], isDigit)
	}
	host, port, ported := strings.Cut(host, ":")
	if ported && (port == "" || !only(port, isDigit)) {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' || !only(label, func(c byte) bool { return c == '-' || isAlphanumeric(c) }) {
			return false
		}
	}
	return true
}

// isComponent reports whether a text is a component of a path: lower-case letters and digits, between them single separators
// '.', '_', "__" or any number of '-'.
func isComponent(text string) bool {
	separator := ""
	for i := range len(text) {
		switch c := text[i]; {
		case c == '.' || c == '_' || c == '-':
			separator = text[i-len(separator) : i+1]
			if i == 0 || i-len(separator) < 0 || !isSeparator(separator) {
				return false
			}
		case isDigit(c) || 'a' <= c && c <= 'z':
			separator = ""
		default:
			return false
		}
	}
	return text != "" && separator == ""
}

func isSeparator(text string) bool {
	return text == "." || text == "_" || text == "__" || strings.Trim(text, "-") == ""
}

func isTag(text string) bool {
	word := func(c byte) bool { return c == '_' || isAlphanumeric(c) }
	return text != "" && len(text) <= 128 && word(text[0]) && only(text, func(c byte) bool { return c == '.' || c == '-' || word(c) })
}

// isDigest reports whether a text is ALGORITHM:DIGITS. An algorithm consists of words that begin with a letter.
func isDigest(text string) bool {
	algorithm, digits, _ := strings.Cut(text, ":")
	if len(digits) < digestMin || !only(digits, isHex) {
		return false
	}
	for word := range strings.FieldsFuncSeq(algorithm, isAlgorithmSeparator) {
		if isDigit(word[0]) || !only(word, isAlphanumeric) {
			return false
		}
	}
	return algorithm != "" && !isAlgorithmSeparator(rune(algorithm[0])) && !isAlgorithmSeparator(rune(algorithm[len(algorithm)-1])) &&
		!hasAdjacentSeparators(algorithm)
}

func isAlgorithmSeparator(r rune) bool { return strings.ContainsRune("-_+.", r) }

func hasAdjacentSeparators(text string) bool {
	for i := 1; i < len(text); i++ {
		if isAlgorithmSeparator(rune(text[i])) && isAlgorithmSeparator(rune(text[i-1])) {
			return true
		}
	}
	return false
}

// checkDigest returns why a digest is not one of a known algorithm.
func checkDigest(text string) string {
	algorithm, digits, _ := strings.Cut(text, ":")
	size := map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}[algorithm]
	switch {
	case size == 0 && strings.ToLower(algorithm) != algorithm:
		return invalidDigest
	case size == 0:
		return unknownDigest
	case len(digits) != size:
		return digestLength
	case !only(digits, isLowerHex):
		return invalidDigest
	}
	return ""
}

// only reports whether all characters of a text are of a kind.
func only(text string, kind func(byte) bool) bool {
	for i := range len(text) {
		if !kind(text[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLowerHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' }

func isHex(c byte) bool { return isLowerHex(c) || 'A' <= c && c <= 'F' }

func isAlphanumeric(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
