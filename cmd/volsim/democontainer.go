package main

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// mountPath returns where the container of a pod of the demo mounts a claim.
func mountPath(claim string) string { return path.Join("/mnt", claim) }

// exec executes a command in the container of a pod, and returns what it prints.
func (s *demoRun) exec(ctx context.Context, pod string, args ...string) (string, error) {
	r, err := s.cluster.Exec(ctx, namespace, pod, "", args...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s in pod %s: exit code %d: %s", strings.Join(args, " "), pod, r.Code, strings.TrimSpace(r.Stderr))
	}
	return r.Stdout, err
}

// write replaces the file in the volume of the first claim.
func (s *demoRun) write(ctx context.Context, text string) error {
	_, err := s.exec(ctx, podName, "sh", "-c", `printf %s "$1" > "$2"`, "sh", text, path.Join(mountPath(claimName), fileName))
	return err
}

// read returns the content of the file in the volume of a claim, and shows the command.
func (s *demoRun) read(ctx context.Context, pod, claim string) (string, error) {
	file := path.Join(mountPath(claim), fileName)
	text, err := s.exec(ctx, pod, "cat", file)
	if err == nil {
		s.out.note(pod, "$ cat "+file+" | "+strings.TrimSpace(text))
	}
	return text, err
}

// showSpace shows the size of the volume of the first claim, as its container sees it.
func (s *demoRun) showSpace(ctx context.Context) error {
	dir := mountPath(claimName)
	text, err := s.exec(ctx, podName, "df", "-h", dir)
	if err != nil {
		return err
	}
	_, row, _ := strings.Cut(text, "\n")
	fields := strings.Fields(row) // device, size, used, available, percent, directory
	if len(fields) < 3 {
		return fmt.Errorf("df in pod %s: %q", podName, text)
	}
	s.out.note(podName, fmt.Sprintf("$ df -h %s | %s of %s, %s used", dir, fields[1], fields[0], fields[2]))
	return nil
}
