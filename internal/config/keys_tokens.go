package config

import "time"

// Tokens is about personal access tokens.
type Tokens struct {
	MaxPerUser int // at a time, expired ones that were not swept included
	Cleaner    Cleaner
}

// Cleaner is a job that is done every so often.
type Cleaner struct {
	Enabled  bool
	Interval time.Duration
}

var tokenKeys = []key{
	{name: "personal_access_token.max_tokens_per_user", def: "100", min: "1", max: "65536", at: func(c *Config) any { return &c.Tokens.MaxPerUser },
		help: "access tokens that a user may have at a time, expired ones that were not removed yet included"},
	{name: "personal_access_token.cleaner.enabled", def: "true", at: func(c *Config) any { return &c.Tokens.Cleaner.Enabled },
		help: "remove access tokens that have expired; one that has does not hold in any case"},
	{name: "personal_access_token.cleaner.interval", def: "1m", min: "1s", at: func(c *Config) any { return &c.Tokens.Cleaner.Interval },
		help: "how often that is done"},
}
