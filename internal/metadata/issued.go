package metadata

// GroupsIssued is the highest group id that was ever given to a partition, 0 if
// none was. Whatever carries a higher one was not made under this metadata.
func (v *View) GroupsIssued() uint64 { return v.s.nextGroup - 1 }
