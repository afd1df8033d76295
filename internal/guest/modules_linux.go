package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// modulesRoot is where Debian's package installs the modules of its kernels, by release.
const modulesRoot = "/usr/lib/uml/modules"

// loadModules loads modules of the running kernel after their dependencies.
func loadModules(names []string) error {
	var system unix.Utsname
	if err := unix.Uname(&system); err != nil {
		return err
	}
	folder := filepath.Join(modulesRoot, unix.ByteSliceToString(system.Release[:]))
	text, err := os.ReadFile(filepath.Join(folder, "modules.dep"))
	if err != nil {
		return fmt.Errorf("modules of the guest's kernel: %w", err)
	}
	files, err := loadOrder(string(text), names)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := loadModule(filepath.Join(folder, file)); err != nil {
			return err
		}
	}
	return nil
}

func loadModule(file string) error {
	module, err := os.Open(file)
	if err != nil {
		return err
	}
	defer module.Close()
	if err := unix.FinitModule(int(module.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return &fs.PathError{Op: "finit_module", Path: file, Err: err}
	}
	return nil
}

// loadOrder returns the files of the modules and their dependencies in load order. dep is a
// modules.dep file: one line per module, with its file, a colon, and its dependencies, the last to
// be loaded first.
func loadOrder(dep string, names []string) ([]string, error) {
	needs := map[string][]string{} // by file
	files := map[string]string{}   // by name
	for line := range strings.Lines(dep) {
		file, rest, _ := strings.Cut(line, ":")
		needs[file] = strings.Fields(rest)
		files[moduleName(file)] = file
	}
	var order []string
	seen := map[string]bool{}
	add := func(file string) {
		if !seen[file] {
			seen[file] = true
			order = append(order, file)
		}
	}
	for _, name := range names {
		file, ok := files[moduleName(name)]
		if !ok {
			return nil, fmt.Errorf("no module %q in the guest's kernel", name)
		}
		for i := len(needs[file]) - 1; i >= 0; i-- {
			add(needs[file][i])
		}
		add(file)
	}
	return order, nil
}

// moduleName returns a module's name, with "_" normalized to "-".
func moduleName(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".ko"), "_", "-")
}
