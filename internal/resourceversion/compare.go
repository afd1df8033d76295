package resourceversion

import (
	"cmp"
	"fmt"
	"strings"
)

// Compare returns -1, 0 or 1 if a is older than, the same as, or newer than b. A version is a
// decimal number of any length that does not begin with 0. Anything else is an error.
func Compare(a, b string) (int, error) {
	for _, version := range []string{a, b} {
		if version == "" || version[0] == '0' || strings.Trim(version, "0123456789") != "" {
			return 0, fmt.Errorf("resource version is not well formed: %s", version)
		}
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)), nil
}
