package guest

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// jobVariable is how process 1 of a guest learns its job's file: the kernel puts words of its command line that it does not
// know into the environment.
const jobVariable = "GUEST_JOB"

// disksVariable is how the command learns the devices that its disks are.
const disksVariable = "GUEST_DISKS"

// job is what process 1 has to do, as the file "job" of the job's folder.
type job struct {
	Command  []string
	Dir      string
	Env      []string
	Modules  []string
	Writable []string
	Merged   bool // standard output and error are one
}

func (j *job) save(file string) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func readJob(file string) (*job, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	j := new(job)
	return j, json.Unmarshal(text, j)
}

// absolute makes paths absolute.
func absolute(paths []string) ([]string, error) {
	all := make([]string, len(paths))
	for i, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, err
		}
		all[i] = abs
	}
	return all, nil
}
