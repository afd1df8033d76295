package array

import (
	"fmt"
	"slices"

	"github.com/volsim/volsim/internal/csireq"
)

// The statuses of a condition by the CSI specification 1.13.
var (
	volumeStatuses  = []string{"DEGRADED", "INACCESSIBLE", "DATA_LOSS"}
	storageStatuses = []string{"STORAGE_DEGRADED", "STORAGE_UNREACHABLE"}
)

// SetCondition makes a volume unhealthy, or the array if volumeID is "". Health calls report it
// until ClearConditions. No other call is affected. The status is DEGRADED, INACCESSIBLE or
// DATA_LOSS for a volume, and STORAGE_DEGRADED or STORAGE_UNREACHABLE for the array. The reason is
// in CamelCase. A condition with the same status and reason is replaced. It may be called at any
// time.
func (a *Array) SetCondition(volumeID, status, reason, message string) error {
	valid := volumeStatuses
	if volumeID == "" {
		valid = storageStatuses
	}
	if !slices.Contains(valid, status) {
		return fmt.Errorf("condition of %q: unknown status %q: use one of %v", volumeID, status, valid)
	}
	if reason == "" {
		return fmt.Errorf("condition of %q: reason is empty: set one in CamelCase", volumeID)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	of, err := a.conditionsOf(volumeID)
	if err != nil {
		return err
	}
	set := csireq.Condition{Status: status, Reason: reason, Message: message}
	at := slices.IndexFunc(*of, func(c csireq.Condition) bool { return c.Status == status && c.Reason == reason })
	if at < 0 {
		*of = append(*of, set)
	} else {
		(*of)[at] = set
	}
	return nil
}

// ClearConditions makes a volume healthy, or the array if volumeID is "". It may be called at any
// time.
func (a *Array) ClearConditions(volumeID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of, err := a.conditionsOf(volumeID); err == nil {
		*of = nil
	}
}

// Conditions returns the conditions of a volume, or of the array if volumeID is "", in the order in
// which they were set. It may be called at any time.
func (a *Array) Conditions(volumeID string) []csireq.Condition {
	a.mu.Lock()
	defer a.mu.Unlock()
	of, err := a.conditionsOf(volumeID)
	if err != nil {
		return nil
	}
	return slices.Clone(*of)
}

// conditionsOf returns a pointer to the conditions of a volume or of the array. The caller holds
// a.mu.
func (a *Array) conditionsOf(volumeID string) (*[]csireq.Condition, error) {
	if volumeID == "" {
		return &a.conditions, nil
	}
	v, err := a.find(volumeID)
	if err != nil {
		return nil, err
	}
	return &v.conditions, nil
}
