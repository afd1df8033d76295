package guest

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed shim/xstate.c
var shimSource []byte

// buildShim compiles the shim into the folder and returns its path.
func buildShim(folder string) (string, error) {
	source, shim := filepath.Join(folder, "xstate.c"), filepath.Join(folder, "xstate.so")
	if err := os.WriteFile(source, shimSource, 0o600); err != nil {
		return "", err
	}
	if output, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", shim,
		source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile shim for processors with AMX: %w\n%s", err, output)
	}
	return shim, nil
}
