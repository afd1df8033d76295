package lvm

import (
	"crypto/sha256"
	"fmt"
	"regexp"
)

const (
	groupPrefix = "volsim-"
	// nodeNameMax is the maximum length of a node's name that is used unchanged. LVM limits names,
	// in total and with its own additions, to 127.
	nodeNameMax = 40
	// nodeNamePrefixMax is the length of the readable prefix of a longer name.
	nodeNamePrefixMax = 16
)

var (
	// validNodeName matches node names that LVM accepts. "+" is reserved for the others.
	validNodeName    = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	invalidCharacter = regexp.MustCompile(`[^A-Za-z0-9_.]`)
)

// groupName returns the default name of a node's volume group: "volsim-" and the node's name. A
// long name, or one that LVM does not accept, is replaced by a prefix and a hash. Names of
// different nodes differ, because device-mapper needs unique names of volume groups on a machine.
func groupName(node string) string {
	if len(node) <= nodeNameMax && validNodeName.MatchString(node) {
		return groupPrefix + node
	}
	part := invalidCharacter.ReplaceAllString(node, "_")
	sum := sha256.Sum256([]byte(node))
	return fmt.Sprintf("%s%.*s+%x", groupPrefix, nodeNamePrefixMax, part, sum[:16])
}
