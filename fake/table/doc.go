// Package table shows objects as the tables that kubectl prints.
package table
