"""What the commits of all formats share: claiming a name, retrying after a lost race, and what runs afterwards."""
