package guest

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// jobVariable passes the job file to process 1: the kernel adds unknown words of its command line
// to the environment.
const jobVariable = "GUEST_JOB"

// disksVariable passes the device names of the disks to the command.
const disksVariable = "GUEST_DISKS"

// A job is the task of process 1, stored as the file "job" in the job's folder.
type job struct {
	Command  []string
	Dir      string
	Env      []string
	Modules  []string
	Writable []string
	Merged   bool // standard output and error are the same stream
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

// absolute returns absolute paths.
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
