package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/volsim/volsim/fake/audit"
	"github.com/volsim/volsim/internal/auditrecord"
)

// auditHelp describes the audit log.
const auditHelp = "With --audit-log each HTTP request to the API server is recorded in a file, in upstream's format audit.k8s.io/v1: one event as\n" +
	"a line of JSON when it is received, one when it is answered. --audit-level says how much is recorded: Metadata, Request (with the\n" +
	"object that was sent) or RequestResponse. Of secrets, config maps, token reviews and requests for tokens it is only metadata,\n" +
	"unless --audit-policy names a file with upstream's Policy, which then decides. With both, the level is that of requests that no rule of\n" +
	"the policy matches. Controllers in this process do not use HTTP and are not in the file.\n"

// auditFileMode is the mode of a new audit log.
const auditFileMode = 0o600

// auditOptions are the options of the audit log.
type auditOptions struct {
	file   string
	level  string
	policy string
}

func (o *auditOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.file, "audit-log", "", "`file` to which the audit log is appended; \"-\" is standard output (default none)")
	flags.StringVar(&o.level, "audit-level", "", "`level` of the audit log: None, Metadata, Request or RequestResponse (default Metadata without a policy, None with one)")
	flags.StringVar(&o.policy, "audit-policy", "", "`file` with an audit policy of audit.k8s.io/v1, which decides what is recorded")
}

// An auditFile is an open audit log.
type auditFile struct {
	log  *audit.Log // nil: none
	file *os.File   // nil: none, or standard output
}

// open opens the log. out is standard output; warnings are written to errs.
func (o auditOptions) open(ctx context.Context, out, errs io.Writer) (*auditFile, error) {
	if o.file == "" {
		if o.level != "" || o.policy != "" {
			return nil, usage(errors.New("--audit-level and --audit-policy require --audit-log"))
		}
		return &auditFile{}, nil
	}
	cfg := audit.Config{Out: out, Level: o.level}
	if o.policy != "" {
		var err error
		if cfg.Policy, err = readFile(ctx, o.policy); err != nil {
			return nil, usage(fmt.Errorf("--audit-policy: %w", err))
		}
	}
	log, err := audit.New(cfg) // before a file is created
	if err != nil {
		return nil, usage(err)
	}
	if warning := log.PolicyWarning(); warning != "" {
		fmt.Fprintf(errs, "volsim: warning: --audit-policy %s: %s\n", o.policy, warning)
	}
	if o.file == "-" {
		return &auditFile{log: log}, nil
	}
	file, err := os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, auditFileMode)
	if err != nil {
		return nil, usage(fmt.Errorf("--audit-log: %w", err))
	}
	cfg.Out = file
	log, err = audit.New(cfg)
	return &auditFile{log: log, file: file}, err
}

// records returns the log for a handler, or nil.
func (f *auditFile) records() auditrecord.Log {
	if f.log == nil {
		return nil
	}
	return f.log
}

// Close closes the file.
func (f *auditFile) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
