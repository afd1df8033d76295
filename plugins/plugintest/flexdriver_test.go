package plugintest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/plugintest"
)

// A flexProgram is a correct driver on a disk in memory, with a defect.
type flexProgram struct {
	disk     *nodefs.Memory
	defect   string
	trees    map[string]*nodefs.Tree
	attached map[string]bool
	calls    int
}

type flexOptions struct {
	Name   string `json:"kubernetes.io/pvOrVolumeName"`
	Access string `json:"kubernetes.io/readwrite"`
	LUN    string `json:"lun"`
}

func (p *flexProgram) run(_ context.Context, args ...string) ([]byte, error) {
	p.calls++
	answer, err := p.do(args[0], args[1:])
	if err != nil {
		answer = map[string]any{"status": "Failure", "message": err.Error()}
		if p.defect == "failures have no message" {
			delete(answer, "message")
		}
	} else if answer["status"] == nil {
		answer["status"] = "Success"
	}
	if p.defect == "the status is OK" && answer["status"] == "Success" {
		answer["status"] = "OK"
	}
	output, _ := json.Marshal(answer)
	if p.defect == "log lines are printed" {
		output = append([]byte("debug: done\n"), output...)
	}
	if p.defect == "it exits with a failure" {
		err = errors.New("exit status 1")
	}
	return output, err
}

var errArguments = errors.New("wrong arguments")

func (p *flexProgram) do(call string, args []string) (map[string]any, error) {
	counts := map[string]int{
		"init": 0, "getvolumename": 1, "attach": 2, "waitforattach": 2, "isattached": 2, "detach": 2, "mountdevice": 3,
		"unmountdevice": 1, "mount": 2, "unmount": 1, "expandvolume": 4, "expandfs": 5,
	}
	count, known := counts[call]
	switch {
	case !known && p.defect == "unknown calls succeed":
		return map[string]any{}, nil
	case !known, p.defect == call+" is not supported":
		return map[string]any{"status": "Not supported"}, nil
	case len(args) != count:
		return nil, errArguments
	}
	var o flexOptions
	for _, arg := range args {
		if strings.HasPrefix(arg, "{") {
			if err := json.Unmarshal([]byte(arg), &o); err != nil {
				return nil, err
			}
		}
	}
	if p.defect == "volumes are not told apart" {
		o.LUN = "same"
	}
	return p.act(call, args, o)
}

func (p *flexProgram) act(call string, args []string, o flexOptions) (map[string]any, error) {
	device := "/dev/" + o.LUN
	if o.LUN == "none" && p.defect != "missing volumes are created" {
		return nil, errors.New("no such volume")
	}
	switch call {
	case "init":
		return map[string]any{"capabilities": map[string]bool{"attach": p.defect != "nothing is attached"}}, nil
	case "getvolumename":
		if p.defect == "names change" {
			return map[string]any{"volumeName": fmt.Sprint(p.calls)}, nil
		}
		return map[string]any{"volumeName": o.LUN}, nil
	case "attach":
		if p.defect == "devices change" {
			device += fmt.Sprint(p.calls)
		}
		p.attached[o.Name] = true
		return map[string]any{"device": device}, nil
	case "waitforattach":
		if args[0] != device && p.defect != "waitforattach accepts any device" && p.defect != "devices change" {
			return nil, errors.New("no such device")
		}
		return map[string]any{"device": args[0]}, nil
	case "isattached":
		return map[string]any{"attached": p.attached[o.Name] || p.defect == "isattached is always true"}, nil
	case "detach":
		if !p.attached[args[0]] && p.defect == "detach fails the second time" {
			return nil, errors.New("not attached")
		}
		if p.defect != "detach has no effect" {
			delete(p.attached, args[0])
		}
		return map[string]any{}, nil
	case "mountdevice":
		if args[1] != device && p.defect != "devices change" {
			return nil, errors.New("no such device")
		}
		return map[string]any{}, p.mount(o, args[0])
	case "mount":
		if p.defect == "mount has no effect" {
			return map[string]any{}, nil
		}
		return map[string]any{}, p.mount(o, args[0])
	case "unmount", "unmountdevice":
		mounted, err := p.disk.IsMountPoint(args[0])
		switch {
		case p.defect == call+" has no effect":
			return map[string]any{}, nil
		case err != nil:
			return nil, err
		case !mounted && p.defect == "unmount fails the second time":
			return nil, errors.New("not mounted")
		case !mounted:
			return map[string]any{}, nil
		}
		return map[string]any{}, p.disk.Unmount(args[0])
	default:
		if p.defect == "expansion loses files" && call == "expandfs" {
			return map[string]any{}, p.disk.Remove(args[2] + "/grown")
		}
		if p.defect == "expansion fails the second time" && p.attached["expanded"] {
			return nil, errors.New("too small")
		}
		p.attached["expanded"] = true
		return map[string]any{}, nil
	}
}

func (p *flexProgram) mount(o flexOptions, dir string) error {
	if p.trees[o.LUN] == nil || p.defect == "each mount is empty" {
		p.trees[o.LUN] = nodefs.NewTree()
	}
	return p.disk.MountTree(p.trees[o.LUN], o.LUN, dir, o.Access == "ro" && p.defect != "read-only is ignored")
}

func checkFlexProgram(t *testing.T, defect string) error {
	t.Helper()
	p := &flexProgram{
		disk: nodefs.NewMemory("/"), defect: defect, trees: map[string]*nodefs.Tree{}, attached: map[string]bool{},
	}
	err := errors.Join(p.disk.MkdirAll("/mnt"), p.disk.WriteProgram("/disk", p.run))
	if err != nil {
		t.Fatal(err)
	}
	err = plugintest.CheckFlexDriver(t.Context(), plugintest.FlexDriver{
		FS: p.disk, Program: "/disk", Dir: "/mnt", Node: "node-1",
		Volumes: [2]map[string]string{{"lun": "1"}, {"lun": "2"}}, Missing: map[string]string{"lun": "none"},
	})
	delete(p.attached, "expanded")
	if mounts, _ := p.disk.Mounts(); defect == "" && (len(mounts) > 0 || len(p.attached) > 0) {
		t.Errorf("left: %v, %v", mounts, p.attached)
	}
	return err
}

func TestCheckFlexDriver(t *testing.T) {
	t.Parallel()
	for _, correct := range []string{
		"", "getvolumename is not supported", "isattached is not supported", "waitforattach is not supported",
		"mount is not supported", "unmount is not supported", "unmountdevice is not supported",
		"expandfs is not supported", "nothing is attached",
	} {
		if err := checkFlexProgram(t, correct); err != nil {
			t.Errorf("a correct program, %q: %v", correct, err)
		}
	}
	for defect, want := range map[string]string{
		"log lines are printed":            "init: output is not one JSON object",
		"the status is OK":                 "init: unknown status",
		"it exits with a failure":          "init: reports success, but exits with a failure",
		"failures have no message":         "attach: reports a failure without a message",
		"unknown calls succeed":            "an unknown call: is not reported as not supported",
		"init is not supported":            "init: does not succeed",
		"names change":                     "getvolumename: changes between calls",
		"devices change":                   "attach: another device the second time",
		"waitforattach accepts any device": "waitforattach: succeeds with a device that does not exist",
		"isattached is always true":        "isattached: wrong before it is attached",
		"detach has no effect":             "isattached: wrong after it was detached",
		"detach fails the second time":     "detach: fails for a volume that is not attached",
		"mount has no effect":              "mount: reports success, but nothing is mounted",
		"unmount has no effect":            "unmount: reports success, but the volume is mounted",
		"unmountdevice has no effect":      "unmountdevice: reports success, but the volume is mounted",
		"unmount fails the second time":    "unmount: fails for an existing directory that is not mounted",
		"read-only is ignored":             "mount: a read-only volume can be written to",
		"each mount is empty":              "mount: a second pod does not see the files of the first",
		"volumes are not told apart":       "getvolumename: same for two volumes",
		"missing volumes are created":      "attach: succeeds with a volume that does not exist",
		"expansion loses files":            "expandfs: files are lost",
		"expansion fails the second time":  "expandfs: fails for a mounted volume",
	} {
		if err := checkFlexProgram(t, defect); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("defect %q: got %v, want %q", defect, err, want)
		}
	}
}
