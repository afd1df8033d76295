package volsim_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/volsim/volsim"

// floors are the floors of ARCHITECTURE.md: a folder, with all below it that has no row of its own, and its floor.
// Imports go down.
var floors = map[string]int{
	// The record of what happened, and its pictures.
	"sim/trace":         1,
	"sim":               1,
	"sim/trace/picture": 2,
	// Mechanisms of one subject, for no one but this module.
	"internal/blockdev":        1,
	"internal/childprocess":    1,
	"internal/filelock":        1,
	"internal/loopback":        0,
	"internal/loopdev":         1,
	"internal/rundir":          1,
	"internal/lvm2":            1,
	"internal/svgpng":          1,
	"internal/gonb":            1,
	"internal/causality":       1,
	"internal/usercode":        1,
	"internal/cronschedule":    1,
	"internal/httpserver":      1,
	"internal/cli":             1,
	"internal/goroutine":       1,
	"internal/reuse":           0, // memory of worlds that have ended
	"internal/resourceversion": 1,
	"internal/hostports":       1,
	"internal/quota":           1,
	"internal/rbac":            1,
	"internal/auditrecord":     1,
	"internal/dm":              1,
	"internal/guest":           1,
	"internal/fieldpath":       1,
	"internal/casefile":        2,
	"internal/events":          2,
	"internal/eventhandler":    2,
	"internal/informercache":   2,
	"internal/podclaims":       2,
	"internal/podnetwork":      2,
	"internal/resize":          2,
	"internal/podtokens":       2,
	"internal/podconnect":      2, // logs of pods and commands in them, between an API server and a kubelet
	"internal/podremoval":      2,
	"internal/watchdir":        2,
	"internal/schedulerconfig": 2,
	"internal/volumehealth":    2,
	"internal/endpoint":        2, // HTTP to handlers of this program
	"internal/extendertest":    1,
	"internal/testcheck":       1,
	"internal/testworld":       3,
	"internal/remote":          3, // the way to a real API server
	// The API server, its parts, and the ways into it.
	"fake":                2,
	"fake/internal/rules": 2,
	// Generates typed clients.
	"fake/internal/clientgen":   3,
	"fake/apiserver":            3,
	"fake/crd":                  3,
	"internal/webhookclient":    3, // the programs behind webhooks
	"fake/admission":            3, // webhooks and policies
	"fake/audit":                3,
	"internal/localprovisioner": 4, // a sidecar of the nodes
	"internal/localstorage":     4, // of the nodes: volume groups and their volumes
	"internal/volumegroup":      3, // of internal/localstorage
	"internal/definitions":      3, // the way from cluster to fake/crd
	"internal/customresource":   2, // custom resources as Go types
	"internal/snapshotapi":      3, // the kinds of snapshots
	"internal/leaderelection":   3, // one of several processes acts
	"fake/reactors":             3,
	"internal/facts":            3,
	"fake/internal/table":       3,
	"fake/internal/openapi":     3,
	// The mechanism of operations, and the rules.
	"executor":  2,
	"invariant": 2,
	// Plugins and drivers.
	"plugins":            2,
	"plugins/nodefs":     2,
	"plugins/subpath":    2,
	"plugins/csi":        3,
	"internal/csireq":    3,
	"internal/ownership": 3,
	"internal/podfiles":  3,
	"internal/workload":  3, // what controllers that create pods share
	"internal/blockcsi":  3,
	// Does a driver on block devices keep the data of its volumes?
	"internal/blockcsi/blockcsitest": 3,
	// What drivers on block devices tell of health, which takes a newer CSI.
	"internal/blockcsi/health": 3,
	"internal/arrayhealth":     3, // the same of the array
	"plugins/loop":             3,
	"plugins/lvm":              3,
	"plugins/array":            3,
	// Finding plugins that come and go, and checking any.
	"plugins/prober":     3,
	"plugins/flexvolume": 3,
	"plugins/plugintest": 3,
	// Plugins of kube-controller-manager.
	"plugins/hostpath":  3,
	"plugins/local":     3,
	"plugins/nfs":       3,
	"internal/recycler": 3,
	// The control plane; blind to one another.
	"pvcontroller":           4,
	"attachdetach":           4,
	"volumemanager":          4,
	"scheduler":              4,
	"controllers":            4,
	"sidecars":               4,
	"kubelet":                4, // a node's part of it, on the volume manager
	"kubelet/pluginmanager":  4,
	"kubelet/container":      2, // the contract between a kubelet and what runs containers
	"internal/shell":         3, // runs containers in memory
	"internal/process":       3, // runs containers as processes
	"internal/kubeletserver": 4, // logs of containers, and commands in them, by HTTP
	"cluster":                5,
	"internal/apirequest":    5,
	"explore":                6,
	"explore/scenario":       6,
	"explore/session":        6,
	"internal/known":         6, // bugs of real projects
	"simtest":                6,
	"csitest":                6,
	"envtest":                6,
	"cmd":                    7,
	"examples":               7,
	// Shows values in a notebook, in the words of its kernel.
	"examples/notebook": 2,
	// Runs clusters on devices of this machine for lessons.
	"examples/live": 6,
}

// sameFloor are the arrows within a floor that are meant.
var sameFloor = [][2]string{
	{"fake/crd", "internal/webhookclient"},
	{"fake/admission", "internal/webhookclient"},
	{"fake/admission", "internal/definitions"},
	{"sim", "sim/trace"},
	{"sim", "internal/goroutine"},
	{"internal/causality", "sim/trace"},
	{"internal/lvm2", "internal/loopdev"},
	{"internal/lvm2", "internal/blockdev"},
	{"internal/lvm2", "internal/filelock"},
	{"fake", "fake/internal/rules"},
	{"fake", "internal/informercache"},
	{"fake", "internal/podclaims"}, // the Node authorizer: whose claims a pod's are
	{"executor", "plugins"},
	{"plugins", "plugins/nodefs"},
	{"invariant", "fake"},
	{"invariant", "plugins/nodefs"},
	{"invariant", "internal/podclaims"},
	{"explore", "explore/scenario"},
	{"internal/known", "explore"},
	{"internal/known", "explore/scenario"},
	{"explore/session", "explore/scenario"},
	{"simtest", "explore/scenario"},
	{"simtest", "explore"},
	{"csitest", "explore/scenario"},
	{"examples/live", "explore/scenario"},
	{"fake/apiserver", "fake/internal/table"},
	{"fake/apiserver", "fake/internal/openapi"},
	{"fake/crd", "internal/definitions"},
	{"plugins/subpath", "plugins/nodefs"},
	{"kubelet", "volumemanager"},
	{"kubelet", "kubelet/pluginmanager"},
	{"plugins/csi", "internal/ownership"},
	{"internal/podfiles", "internal/ownership"},
	{"plugins/array", "internal/csireq"},
	{"internal/blockcsi", "internal/csireq"},
	{"internal/blockcsi", "internal/ownership"},
	{"internal/blockcsi/blockcsitest", "internal/blockcsi"},
	{"internal/blockcsi/blockcsitest", "internal/csireq"},
	{"internal/blockcsi/health", "internal/blockcsi"},
	{"internal/blockcsi/health", "internal/csireq"},
	{"internal/arrayhealth", "plugins/array"},
	{"internal/arrayhealth", "internal/csireq"},
	{"plugins/loop", "internal/csireq"},
	{"plugins/loop", "internal/blockcsi"},
	{"plugins/lvm", "internal/csireq"},
	{"plugins/lvm", "internal/blockcsi"},
	{"plugins/hostpath", "internal/recycler"},
	{"plugins/local", "plugins/hostpath"}, // a node's paths
	{"plugins/nfs", "plugins/hostpath"},   // a server's paths
	{"plugins/local", "internal/ownership"},
	{"plugins/flexvolume", "internal/ownership"},
	{"plugins/nfs", "internal/recycler"},
}

// testOnly are modules and packages that only tests and the testPackages may import.
var testOnly = []string{
	"pgregory.net/rapid", "github.com/google/go-cmp", "github.com/anishathalye/porcupine",
	module + "/internal/testcheck", module + "/internal/testworld", module + "/internal/extendertest",
}

// testPackages are the packages for tests that are not test files.
var testPackages = []string{"simtest", "internal/testcheck", "internal/testworld", "internal/extendertest"}

// clockCalls are the functions of package time that read or wait for the wall clock.
var clockCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// mayUseClock are the places that may: the live host, the command, and the waits for a device to go away.
var mayUseClock = []string{"sim/", "cmd/", "examples/", "internal/loopdev/loopdev.go", "internal/lvm2/retry.go"}

// badNames say nothing of what is in them.
var badNames = []string{"util", "utils", "common", "helpers", "helper", "types", "base", "misc", "new", "shared"}

// linesMax bounds a file that is not a test.
const linesMax = 500

// source is one Go file of the module.
type source struct {
	path   string // slash-separated, from the root
	folder string // "." is the root
	test   bool
	file   *ast.File
	lines  int
}

// sources returns the Go files of the module.
func sources(t *testing.T) []source {
	t.Helper()
	all := sourcesBelow(t, ".")
	if len(all) < 20 {
		t.Fatalf("found %d files: is this the root of the module?", len(all))
	}
	return all
}

// allSources returns the Go files of the module, of module ctrlruntime, and of the test modules below
// test/.
func allSources(t *testing.T) []source {
	t.Helper()
	all := sources(t)
	modules, err := filepath.Glob("test/*/go.mod")
	if err != nil || len(modules) < 3 {
		t.Fatalf("found %d test modules, want at least 3: %v", len(modules), err)
	}
	for _, file := range append(modules, "ctrlruntime/go.mod") {
		all = append(all, sourcesBelow(t, path.Dir(filepath.ToSlash(file)))...)
	}
	return all
}

// sourcesBelow returns the Go files of the module whose root is a folder.
func sourcesBelow(t *testing.T, root string) []source {
	t.Helper()
	var all []source
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		p = filepath.ToSlash(p)
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(p, "go.mod")); p != root && (err == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		f, err := parser.ParseFile(set, p, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, source{
			path: p, folder: path.Dir(p), test: strings.HasSuffix(p, "_test.go"), file: f,
			lines: set.Position(f.End()).Line,
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// floorOf is the floor of a folder, and the row it is by.
func floorOf(folder string) (floor int, row string) {
	for row := folder; row != "."; row = path.Dir(row) {
		if floor, ok := floors[row]; ok {
			return floor, row
		}
	}
	return 0, ""
}

func imports(f *ast.File) []string {
	var paths []string
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err)
		}
		paths = append(paths, p)
	}
	return paths
}

func TestImportsGoDown(t *testing.T) {
	for _, s := range sources(t) {
		if s.folder == "." || s.test {
			continue // tests may look from above
		}
		from, row := floorOf(s.folder)
		if row == "" {
			t.Errorf("%s: folder %s stands on no floor; give it one in house_test.go and ARCHITECTURE.md", s.path, s.folder)
			continue
		}
		for _, imported := range imports(s.file) {
			folder, ours := strings.CutPrefix(imported, module+"/")
			if !ours || folder == s.folder {
				continue
			}
			to, toRow := floorOf(folder)
			within := toRow == row && strings.Contains(folder, "/internal/")
			if to < from || within || slices.Contains(sameFloor, [2]string{row, toRow}) {
				continue
			}
			t.Errorf("%s (floor %d) imports %s (floor %d): imports go down", s.path, from, folder, to)
		}
	}
}

func TestTestLibrariesStayInTests(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || slices.Contains(testPackages, s.folder) {
			continue
		}
		for _, imported := range imports(s.file) {
			for _, library := range testOnly {
				if imported == library || strings.HasPrefix(imported, library+"/") {
					t.Errorf("%s imports %s: only tests may", s.path, imported)
				}
			}
		}
	}
}

func TestTimeAndChanceComeFromSim(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || slices.ContainsFunc(mayUseClock, func(p string) bool { return strings.HasPrefix(s.path, p) }) {
			continue
		}
		for _, imported := range imports(s.file) {
			if strings.HasPrefix(imported, "math/rand") {
				t.Errorf("%s imports %s: ask a sim.Chooser", s.path, imported)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if id, ok := selector.X.(*ast.Ident); ok && id.Name == "time" && slices.Contains(clockCalls, selector.Sel.Name) {
				t.Errorf("%s uses time.%s: use the component's Now, Sleep or a sim.Timer", s.path, selector.Sel.Name)
			}
			return true
		})
	}
}

func TestFilesAreNamedForWhatIsInThem(t *testing.T) {
	docs := map[string]bool{}
	folders := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		folders[s.folder] = true
		name := strings.TrimSuffix(path.Base(s.path), ".go")
		switch {
		case name == "doc" || s.file.Name.Name == "main":
			docs[s.folder] = docs[s.folder] || s.file.Doc != nil
		case slices.Contains(badNames, name):
			t.Errorf("%s: name it by what it knows", s.path)
		}
		if slices.Contains(badNames, path.Base(s.folder)) {
			t.Errorf("%s: name the folder by what it knows", s.path)
		}
		if s.lines > linesMax {
			t.Errorf("%s has %d lines, more than %d: is it one behaviour?", s.path, s.lines, linesMax)
		}
	}
	for folder := range folders {
		if !docs[folder] {
			t.Errorf("%s has no doc.go with a package comment", folder)
		}
	}
}
