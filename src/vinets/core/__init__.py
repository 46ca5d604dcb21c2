"""What every other package needs: files, options, progress, devices."""
